// One question on demand: answer and gold, sources with the evidence marked, plan, steps, cost.

async function openQuestion(questions, row) {
  const dialog = byId("detail");
  const detail = await detailOf(row), marks = await loadMarks();
  const at = shownRows.indexOf(row);
  const step = (by, label, words) => el("button", { type: "button", "aria-label": words, text: label, disabled: at < 0 || shownRows[at + by] === undefined,
    click: () => openQuestion(questions, shownRows[at + by]) });
  const bar = el("header", {}, el("a", { class: "said soft small", href: addressOf(questions, row), title: "Link to this question",
    text: [questions.id(row), questions.method(row), questions.dataset(row)].filter(Boolean).join(" · ") }),
    step(-1, "↑", "Previous question"), step(1, "↓", "Next question"),
    el("button", { type: "button", id: "close", text: "Close", click: () => dialog.close() }));
  dialog.replaceChildren(el("div", { class: "sheet" }, bar, el("div", { class: "body", tabindex: "-1", autofocus: true }, detailParts(questions, row, detail, marks))));
  if (!dialog.open) dialog.showModal();
  history.replaceState(null, "", addressOf(questions, row));
}

/** The fragment that opens a question: its id, or its row number if the id is not unique on the page. */
function addressOf(questions, row) {
  const id = questions.id(row);
  return "#" + (overview.kind === "run" && id && !byId(id) && !/^q=\d+$/.test(id) ? encodeURIComponent(id) : "q=" + row);
}

function detailParts(questions, row, detail, marks) {
  const top = [
    el("h2", { id: "detail-title", class: "said", dir: "auto", text: questions.question(row) || questions.id(row) }),
    el("div", { class: "measures" }, el("span", { class: "tag " + questions.status(row), text: questions.status(row) || "–" }), correctionTag(questions, row),
      [["type", questions.type(row)], ["analyzer's type", questions.analysed(row)], ["workflow", questions.workflow(row)]]
        .filter(([, value]) => value).map(([name, value]) => el("span", {}, name + " ", el("b", { text: value }))),
      questions.measures.filter((name) => questions.measure(name, row) !== null).map((name) =>
        el("span", {}, overview.measures[name] + " ", el("b", { text: figure(name, questions.measure(name, row)) })))),
  ];
  if (!detail) return [...top, el("h3", { text: "Answer" }), block(questions.answer(row) || "–"),
    el("p", { class: "note", text: "The details of this question were omitted to keep the page small; okralong show prints them." }), others(questions, row)];
  return [...top, answers(detail), searchedPart(detail), sourcesPart(detail, marks), planPart(detail), stepsPart(detail), costPart(detail), others(questions, row)];
}

function answers(detail) {
  const gold = detail.golds.length ? el("div", {}, el("div", { class: "soft small", text: "Gold answer" }), detail.golds.map((text) => block(text))) : null;
  return el("div", { class: "answers" },
    el("div", {}, el("div", { class: "soft small", text: "Answer" }), block(detail.answer || "–"), detail.correction && el("p", { class: "correction said", dir: "auto", text: detail.correction }), detail.error && block(detail.error),
      detail.replied_by && el("p", { class: "soft small" }, "by ", said(detail.replied_by))), gold);
}

const CITED = 1, GOLD = 2;

function sourcesPart(detail, marks) {
  const title = el("h3", { text: "Sources" });
  if (!detail.sources.length) return [title, el("p", { class: "soft", text: "The answer cites no passage of its context." })];
  const kinds = detail.sources.flatMap((source) => source[4].map((piece) => piece[1])).filter((kind) => kind > 0);
  const key = el("p", { class: "soft small" }, kinds.some((kind) => kind & CITED) && el("span", {}, el("mark", { class: "cited", text: "cited by the answer" }), " "),
    kinds.some((kind) => kind & GOLD) && el("mark", { class: "gold", text: "gold evidence" }));
  return [title, key, detail.sources.map(([doc, start, end, seen, pieces, place]) => {
    const pictures = place.marks.map((number) => marks[number]).filter(Boolean);
    const box = el("div", { class: "source" + (pictures.length ? " pictured" : "") },
      el("div", { class: "place" }, el("span", {}, el("b", { class: "said", dir: "auto", text: place.file || doc }), place.section && [" · ", el("b", { class: "said", dir: "auto", text: place.section })],
        place.link && [" · ", el("a", { class: "open-source", href: place.link, target: "_blank", rel: "noopener noreferrer", text: "Open" })]),
      el("span", {}, place.file && place.file !== doc && [said(doc), ", "], `characters ${start.toLocaleString("en")}–${end.toLocaleString("en")}` + (seen ? "" : " · not in the context shown"))),
      el("div", { class: "beside" }, pieces.length ? el("div", { class: "block", dir: "auto" }, pieces.map(([text, kind]) => marked(text, kind)))
        : el("div", { class: "block soft", text: "The text is unavailable." }),
      pictures.length > 0 && el("div", { class: "pages" }, joinedByPage(pictures).map((picture) => pagePicture(picture, place, () => box.classList.toggle("large"))))));
    return box;
  })];
}

/** Group the marks by picture, which all quotes of a page share. */
function joinedByPage(pictures) {
  const found = new Map();
  for (const [picture, page, boxes] of pictures) found.set(picture, [picture, page, [...(found.get(picture) || [0, 0, []])[2], ...boxes]]);
  return [...found.values()];
}

/** A page with marked quotes, scrolled to the first; a click enlarges it. */
function pagePicture([picture, page, boxes], place, enlarge) {
  const percent = (value) => value / 100 + "%";
  const image = el("img", { alt: `Page ${page} of ${place.file}`, src: pictureAddress(picture), load: () => see() });
  const paper = el("div", { class: "paper" }, image, boxes.map(([left, top, width, height]) =>
    el("i", { class: "quote", vars: { left: percent(left), top: percent(top), width: percent(width), height: percent(height) } })));
  const frame = el("div", { class: "frame", tabindex: "0", role: "region", "aria-label": `Page ${page}` }, paper);
  const see = () => { const mark = frame.querySelector(".quote"); frame.scrollTo(mark ? mark.offsetLeft - 20 : 0, mark ? mark.offsetTop - frame.clientHeight / 3 : 0); };
  const find = () => { see(); const mark = frame.querySelector(".quote"); if (mark) mark.scrollIntoView({ block: "center", inline: "nearest" }); };
  return el("figure", {}, el("figcaption", { class: "soft small" }, el("span", { text: `Page ${page}` + (boxes.length ? "" : ": the quote was not located in the picture") }),
    el("button", { type: "button", class: "quiet enlarge", text: "Larger / smaller", click: () => { enlarge(); requestAnimationFrame(find); } })), frame);
}

function marked(text, kind) {
  if (kind < 0) return el("span", { class: "cut", text: ` … ${(-kind).toLocaleString("en")} characters omitted … ` });
  if (kind === 0) return text;
  return el("mark", { class: [kind & CITED && "cited", kind & GOLD && "gold"].filter(Boolean).join(" "), text });
}

/** What was searched for a question without an answer. */
function searchedPart(detail) {
  if (!detail.searched) return null;
  return [el("h3", { text: "What was searched" }),
    el("ul", { class: "reasons searched" }, detail.searched.facts.map(([name, words]) => el("li", {}, el("b", { text: name + ": " }), said(words)))),
    detail.searched.nearest.map(([place, scores, text]) => el("div", { class: "source" },
      el("div", { class: "place" }, el("b", { class: "said", dir: "auto", text: place }), el("span", { text: scores })), text && block(text)))];
}

function planPart(detail) {
  const plan = detail.plan, analysis = detail.analysis;
  if (!plan && !analysis) return null;
  const odds = analysis && el("div", { class: "odds" }, analysis.odds.map(([field, labels]) => [el("div", { class: "field", text: field }),
    labels.map(([label, p]) => [el("span", { text: label }), el("span", { class: "bar" }, el("i", { vars: { width: (100 * p).toFixed(1) + "%" } })), el("span", { text: p.toFixed(2) })])]));
  return [el("h3", { text: "Plan" }),
    plan && el("ul", { class: "reasons" }, (plan.reasons || []).map((reason) => el("li", { text: reason }))),
    analysis && el("p", { class: "soft small", text: `Analysis by ${analysis.analyzer}:` }), odds];
}

function stepsPart(detail) {
  if (!detail.steps.length) return null;
  return [el("h3", { text: "Steps" }), detail.steps.map(([path, kind, head, parts]) => el("details", { class: "step" },
    el("summary", {}, el("span", { class: "mono", text: path }), el("span", { class: "soft", text: ` ${kind} · ${head}` })),
    parts.map(([title, text]) => [el("div", { class: "soft small", text: title }), block(text)])))];
}

function costPart(detail) {
  const count = (value) => (value || 0).toLocaleString("en");
  return [el("h3", { text: "Cost and time" }), el("div", { class: "measures" },
    [["calls", count(detail.calls)], ["input tokens", count(detail.prompt_tokens)], ["output tokens", count(detail.completion_tokens)],
      ["context tokens", count(detail.context_tokens)], ...detail.seconds.map(([stage, spent]) => [stage + ", s", spent.toFixed(2)])]
      .map(([name, value]) => el("span", {}, name + " ", el("b", { text: value })))),
  detail.scope.length ? el("p", { class: "soft small" }, "Scope: ", said(detail.scope.join(", "))) : el("p", { class: "soft small", text: "Scope: the whole archive" })];
}

/** In a sweep: the answers of the other methods to the same question. */
function others(questions, row) {
  if (overview.kind !== "sweep") return null;
  const same = [];
  for (let other = 0; other < questions.count; other++) {
    if (other !== row && questions.id(other) === questions.id(row) && questions.dataset(other) === questions.dataset(row)) same.push(other);
  }
  if (!same.length) return null;
  const main = overview.accuracy.length ? overview.accuracy[0][0] : null;
  const line = (other) => el("tr", {}, el("td", {}, el("button", { type: "button", text: questions.method(other), click: () => openQuestion(questions, other) })),
    el("td", {}, said(questions.answer(other) || questions.status(other))), main && el("td", { class: "number", "data-label": overview.measures[main], text: figure(main, questions.measure(main, other)) }),
    el("td", { class: "number", "data-label": "Tokens", text: figure("weighted_tokens", questions.measures.includes("weighted_tokens") ? questions.measure("weighted_tokens", other) : null) }));
  return [el("h3", { text: "The same question by other methods" }), el("div", { class: "scroll" }, el("table", { class: "figures" },
    el("thead", {}, el("tr", {}, el("th", { text: "Method" }), el("th", { text: "Answer" }), main && el("th", { class: "number", text: overview.measures[main] }), el("th", { class: "number", text: "Tokens" }))),
    el("tbody", {}, same.slice(0, 40).map(line))))];
}
