// The matrix: documents by the questions that were asked of each. Only one page of documents is ever in the page.

const matrixView = { search: "", show: "", sort: null, falling: false, page: 0 };

function matrixCard(questions) {
  const matrix = questions.matrix;
  if (!matrix) return null;
  const body = el("tbody"), pager = el("div", { class: "pager" });
  const heading = (text, at, about) => el("th", { scope: "col", "data-column": at, title: about },
    el("button", { type: "button", class: "said", click: () => sortBy(at) },
      text.split(/(?<=_)/).flatMap((part, place) => place ? [el("wbr"), part] : [part])));
  const head = el("tr", {}, heading("Document", -1), matrix.columns.map(([name, words], at) => heading(name, at, words)));
  const draw = () => {
    const documents = matrixDocuments(questions, matrix, matrixView);
    const pages = Math.max(1, Math.ceil(documents.length / PAGE));
    matrixView.page = Math.min(matrixView.page, pages - 1);
    const shown = documents.slice(matrixView.page * PAGE, (matrixView.page + 1) * PAGE);
    body.replaceChildren(...shown.map((at) => matrixRow(questions, matrix, at, shown)));
    pager.replaceChildren(...matrixPager(documents.length, matrix.documents.length, pages, draw));
    for (const th of head.children) {
      if (matrixView.sort !== null && Number(th.dataset.column) === matrixView.sort) th.setAttribute("aria-sort", matrixView.falling ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    }
  };
  const changed = (change) => (value) => { change(value); matrixView.page = 0; draw(); };
  const sortBy = (at) => { matrixView.falling = matrixView.sort === at ? !matrixView.falling : false; matrixView.sort = at; matrixView.page = 0; draw(); };
  const search = el("input", { type: "search", id: "matrix-search", placeholder: "Search documents and values", "aria-label": "Search the matrix",
    input: (event) => changed((value) => { matrixView.search = value; })(event.target.value) });
  const show = choice("Documents", [["", "all"], ["gaps", "with an unanswered cell"], ["unsure", "with an unsure cell"],
    ...(matrix.failed.length ? [["failed", "with a failed check"]] : []),
    ...(matrix.corrected.length ? [["corrected", "with a corrected cell"]] : []),
    ...(matrix.corrected.some(isReopened) ? [["reopened", "with a reopened correction"]] : [])], "",
    changed((value) => { matrixView.show = value; }));
  const key = questions.measures.includes("confidence") && el("p", { class: "soft small" }, "Confidence: ",
    [["sure", `${matrix.sure} or more`], ["likely", `${matrix.likely} or more`], ["unsure", "less"]].map(([name, words]) =>
      [el("span", { class: "swatch " + name, text: words }), " "]));
  draw();
  return section(["matrix", "Matrix"], "Documents by questions",
    el("p", { class: "soft small", text: "Click a cell to open its source." }), key, el("div", { class: "controls" }, search, show),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Documents by questions" },
      el("table", { class: "matrix" }, el("thead", {}, head), body)), pager);
}

const isReopened = ([, , state]) => stateClass(state) === "reopened";

/** The confidence of a cell's answer, its status if it has no answer, or "" if unknown. */
function cellKind(questions, matrix, row) {
  if (row < 0) return "missing";
  if (questions.status(row) !== "answered") return questions.status(row);
  const sure = questions.measures.includes("confidence") ? questions.measure("confidence", row) : null;
  if (sure === null) return "";
  return sure >= matrix.sure ? "sure" : sure >= matrix.likely ? "likely" : "unsure";
}

/** The indices of the documents that match the filters, sorted. */
function matrixDocuments(questions, matrix, view) {
  const words = view.search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (let at = 0; at < matrix.documents.length; at++) {
    const kinds = matrix.rows[at].map((row) => cellKind(questions, matrix, row));
    if (view.show === "gaps" && kinds.every((kind) => ["sure", "likely", "unsure", ""].includes(kind))) continue;
    if (view.show === "unsure" && !kinds.some((kind) => kind === "likely" || kind === "unsure")) continue;
    if (view.show === "corrected" && !matrix.corrected.some(([document]) => document === at)) continue;
    if (view.show === "reopened" && !matrix.corrected.some((one) => one[0] === at && isReopened(one))) continue;
    if (view.show === "failed" && !matrix.failed.some(([document]) => document === at)) continue;
    const text = [...matrix.documents[at], ...matrix.words[at]].join(" ").toLowerCase();
    if (words.every((word) => text.includes(word))) found.push(at);
  }
  if (view.sort === null) return found;
  const value = (at) => view.sort < 0 ? matrix.documents[at][0] : matrix.numbers[at][view.sort] ?? matrix.words[at][view.sort];
  return found.sort((a, b) => {
    const x = value(a), y = value(b);
    if (x === "" || y === "") return (x === "") - (y === "") || a - b;
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return (view.falling ? -order : order) || a - b;
  });
}

function matrixRow(questions, matrix, at, shown) {
  const [doc, title] = matrix.documents[at];
  const open = (row) => { shownRows = shown.flatMap((one) => matrix.rows[one]).filter((each) => each >= 0); openQuestion(questions, row); };
  return el("tr", {}, el("th", { scope: "row" }, el("span", { class: "said", dir: "auto", text: doc }), title && title !== doc && el("span", { class: "soft small said", dir: "auto", text: title })),
    matrix.rows[at].map((row, column) => {
      const kind = cellKind(questions, matrix, row);
      const number = matrix.numbers[at][column] !== null ? " number" : "";
      if (row < 0) return el("td", { class: "missing" });
      const failed = matrix.failed.filter(([document, place]) => document === at && place === column).flatMap(([, , found]) => found);
      const corrected = matrix.corrected.filter(([document, place]) => document === at && place === column);
      return el("td", { class: kind + number }, el("button", { type: "button", class: "open", "data-row": row, "aria-label": questions.id(row), click: () => open(row) },
        questions.status(row) === "answered" ? el("span", { class: "words said", dir: "auto", text: matrix.words[at][column] })
          : el("span", { class: "tag " + kind, text: kind }),
        failed.length > 0 && el("span", { class: "tag check", title: failed.join("\n"), text: "check failed" }),
        corrected.map(([, , state, told]) => el("span", { class: "tag " + stateClass(state), title: told, text: stateClass(state) }))));
    }));
}

function matrixPager(found, all, pages, draw) {
  const move = (by) => () => { matrixView.page += by; draw(); byId("matrix").scrollIntoView(); };
  const from = found ? matrixView.page * PAGE + 1 : 0, to = Math.min(found, (matrixView.page + 1) * PAGE);
  const words = `${from.toLocaleString("en")}–${to.toLocaleString("en")} of ${counted(found, "document")}` + (found === all ? "" : ` (of ${all.toLocaleString("en")} in total)`);
  return [el("span", { class: "soft small", id: "matrix-found", text: words }), pages > 1 && el("span", {},
    el("button", { type: "button", text: "← Previous", disabled: matrixView.page === 0, click: move(-1) }), " ",
    el("button", { type: "button", text: "Next →", disabled: matrixView.page >= pages - 1, click: move(1) }))].filter(Boolean);
}
