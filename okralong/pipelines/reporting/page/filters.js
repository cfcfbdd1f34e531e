// Which questions are shown, and in which order: plain functions over row numbers.

const PAGE = 50;

function newView() {
  return { search: "", choices: {}, score: "", sort: null, falling: false, page: 0 };
}

/** The rows that match the filters, sorted. */
function chosenRows(questions, view, measure) {
  const words = view.search.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = Object.entries(view.choices).filter(([, at]) => at !== "").map(([name, at]) => [questions.at(name), Number(at)]);
  const rows = [];
  for (let row = 0; row < questions.count; row++) {
    if (wanted.some(([at, value]) => at[row] !== value)) continue;
    if (view.score && !scored(measure && questions.measure(measure, row), view.score)) continue;
    if (words.length) {
      const text = `${questions.id(row)} ${questions.question(row)} ${questions.answer(row)}`.toLowerCase();
      if (!words.every((word) => text.includes(word))) continue;
    }
    rows.push(row);
  }
  if (view.sort === null) return overview.kind === "run" ? failuresFirst(questions, rows) : rows;
  return view.sort === "asked" ? rows : sorted(questions, rows, view.sort, view.falling);
}

const ENDS = ["failed", "over_budget", "unanswerable"];

/** Failures first, then the original order. */
function failuresFirst(questions, rows) {
  const rank = (row) => { const at = ENDS.indexOf(questions.status(row)); return at < 0 ? ENDS.length : at; };
  return [...rows].sort((a, b) => rank(a) - rank(b) || a - b);
}

function scored(value, wanted) {
  if (value === null || value === undefined) return false;
  return wanted === "wrong" ? value < 0.5 : value >= 0.5;
}

/** Sort rows by a column; rows without a value come last in both directions. The sort is stable. */
function sorted(questions, rows, key, falling) {
  const value = questions.measures.includes(key) ? (row) => questions.measure(key, row) : questions[key];
  const missing = (v) => v === null || v === "";
  return [...rows].sort((a, b) => {
    const x = value(a), y = value(b);
    if (missing(x) || missing(y)) return missing(x) - missing(y) || a - b;
    const order = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
    return (falling ? -order : order) || a - b;
  });
}
