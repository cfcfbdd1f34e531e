// The data in the page: deflated JSON in base64, unpacked when it is wanted.

async function unpacked(base64) {
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

const overview = JSON.parse(byId("overview").textContent);

/** The questions by column; numbered texts are looked up on demand. */
async function loadQuestions() {
  const index = await unpacked(byId("index").textContent);
  const word = (name) => (row) => index.words[name].names[index.words[name].at[row]];
  const words = Object.fromEntries(Object.keys(index.words).map((name) => [name, word(name)]));
  return {
    count: index.id.length,
    id: (row) => index.id[row],
    question: (row) => index.question.names[index.question.at[row]],
    answer: (row) => index.answer[row],
    cited: (row) => index.cited[row] === 1,
    ...words,
    names: (name) => index.words[name].names,
    at: (name) => index.words[name].at,
    sameQuestion: (row) => index.question.at[row],
    measures: Object.keys(index.measures),
    measure: (name, row) => index.measures[name][row],
    matrix: index.matrix,
  };
}

const heldBlocks = new Map();
const BLOCKS_HELD = 8;

/** The marks of quotes on pages: [picture number, page label, boxes in ten thousandths], or null. */
let heldMarks = null;
const loadMarks = () => (heldMarks ??= unpacked(byId("marks").textContent));

/** A picture as a data: URI. */
function pictureAddress(number) {
  const held = byId("picture-" + number);
  return `data:image/${held.dataset.kind};base64,${held.textContent}`;
}

/** The details of a question, or null if they were omitted. */
async function detailOf(row) {
  if (row >= overview.detailed) return null;
  const number = Math.floor(row / overview.block);
  if (!heldBlocks.has(number)) {
    if (heldBlocks.size >= BLOCKS_HELD) heldBlocks.delete(heldBlocks.keys().next().value);
    heldBlocks.set(number, unpacked(byId("details-" + number).textContent));
  }
  return (await heldBlocks.get(number))[row % overview.block];
}
