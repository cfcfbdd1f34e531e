// The table of questions: controls, one page of rows, pager. Only one page of rows is ever in the document.

const view = newView();
let shownRows = [];

function questionsCard(questions) {
  const main = overview.accuracy.length ? overview.accuracy[0][0] : null;
  const columns = columnsOf(questions, main);
  const body = el("tbody"), pager = el("div", { class: "pager" });
  const head = el("tr", {}, columns.map((column) => el("th", { class: column.kind, scope: "col", "data-key": column.key },
    el("button", { type: "button", text: column.label, click: () => sortBy(column.key) }))));
  const marks = () => [...head.children].forEach((th) => {
    if (th.dataset.key === view.sort) th.setAttribute("aria-sort", view.falling ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  });
  const draw = () => {
    shownRows = chosenRows(questions, view, main);
    const pages = Math.max(1, Math.ceil(shownRows.length / PAGE));
    view.page = Math.min(view.page, pages - 1);
    const rows = shownRows.slice(view.page * PAGE, (view.page + 1) * PAGE);
    body.replaceChildren(...rows.map((row) => el("tr", {}, columns.map((column) => column.cell(row)))));
    pager.replaceChildren(...pagerParts(shownRows.length, questions.count, pages, draw));
    marks();
  };
  const changed = (change) => (value) => { change(value); view.page = 0; draw(); };
  const sortBy = (key) => {
    view.falling = view.sort === key ? !view.falling : false;
    view.sort = key;
    view.page = 0;
    draw();
  };
  const search = el("input", { type: "search", id: "search", placeholder: "Search questions and answers", "aria-label": "Search",
    input: (event) => changed((value) => { view.search = value; })(event.target.value) });
  const lists = [["method", "Method"], ["dataset", "Set"], ["status", "Status"], ["type", "Type"], ["analysed", "Analyzer's type"], ["workflow", "Workflow"], ["replied_by", "Replied by"], ["correction", "Correction"]];
  const least = (name) => name === "correction" ? 0 : 1; // most answers have none
  const selects = lists.filter(([name]) => questions.names(name).filter(Boolean).length > least(name)).map(([name, label]) =>
    choice(label, [["", "all"], ...questions.names(name).map((value, at) => [String(at), value || "–"])], "",
      changed((value) => { view.choices[name] = value; })));
  const score = main && choice(overview.measures[main], [["", "all"], ["right", "0.5 and better"], ["wrong", "below 0.5"]], "",
    changed((value) => { view.score = value; }));
  const first = overview.kind === "run" ? [["", "failures first"], ["asked", "as asked"]] : [["", "as asked"]];
  const sortKeys = [...first, ...columns.map((column) => [column.key, column.label])];
  const order = el("div", { class: "sortby" }, choice("Sort by", sortKeys, "", changed((value) => { view.sort = value || null; view.falling = false; })));
  draw();
  return section(["questions", "Questions"], "Questions", el("div", { class: "controls" }, search, selects, score, order,
    el("button", { type: "button", id: "save", text: "Save as CSV", title: "The selected questions with their sources",
      click: (event) => saveTable(questions, main, event.target) })),
    el("table", { class: "list" }, el("colgroup", {}, columns.map((column) => el("col", { class: "w-" + column.key }))),
      el("thead", {}, head), body), pager);
}

function columnsOf(questions, main) {
  const many = (name) => questions.names(name).filter(Boolean).length > 1;
  const text = (key, label) => ({ key, label, kind: "word", cell: (row) => el("td", { class: "word", "data-label": label }, said(questions[key](row) || "–")) });
  const number = (key, label) => ({ key, label, kind: "number",
    cell: (row) => el("td", { class: "number", "data-label": label, text: figure(key, questions.measure(key, row)) }) });
  const has = (key) => questions.measures.includes(key);
  const usd = has("alone_usd") ? "alone_usd" : "billed_usd";
  return [
    { key: "question", label: "Question", kind: "", cell: (row) => el("td", { class: "full" },
      el("button", { type: "button", class: "open", "data-row": row, click: () => openQuestion(questions, row) },
        el("span", { class: "id said", text: questions.id(row) }), el("span", { class: "words said", dir: "auto", text: questions.question(row) || questions.id(row) }))) },
    many("method") && text("method", "Method"),
    many("dataset") && text("dataset", "Set"),
    questions.names("type").some(Boolean) ? text("type", "Type") : text("analysed", "Type"),
    !many("method") && questions.names("workflow").some(Boolean) && text("workflow", "Workflow"),
    { key: "answer", label: "Answer", kind: "", cell: (row) => el("td", { class: "full" }, questions.status(row) === "answered"
      ? el("span", { class: "answer said", dir: "auto", text: questions.answer(row) })
      : el("span", { class: "tag " + questions.status(row), text: questions.status(row) || "–" }), correctionTag(questions, row)) },
    main && number(main, overview.measures[main]),
    has("confidence") && number("confidence", "Confidence"),
    has("weighted_tokens") && number("weighted_tokens", "Tokens"),
    has(usd) && number(usd, "Cost"),
    has("seconds_total") && number("seconds_total", "Seconds"),
  ].filter(Boolean);
}

/** The class of a correction's state, which names the reason after a colon. */
const stateClass = (state) => state.split(":")[0];

function correctionTag(questions, row) {
  const state = questions.correction(row);
  return state && el("span", { class: "tag " + stateClass(state), text: state });
}

function pagerParts(found, all, pages, draw) {
  const move = (by) => () => { view.page += by; draw(); byId("questions").scrollIntoView(); };
  const from = found ? view.page * PAGE + 1 : 0, to = Math.min(found, (view.page + 1) * PAGE);
  const words = `${from.toLocaleString("en")}–${to.toLocaleString("en")} of ${found.toLocaleString("en")}` +
    (found === all ? "" : ` (of ${all.toLocaleString("en")} in total)`);
  return [el("span", { class: "soft small", id: "found", text: words }),
    el("span", {}, el("button", { type: "button", id: "previous", text: "← Previous", disabled: view.page === 0, click: move(-1) }), " ",
      el("button", { type: "button", id: "next", text: "Next →", disabled: view.page >= pages - 1, click: move(1) }))];
}

/** Save the selected rows as a CSV file: the table's columns, full answers, and sources. */
async function saveTable(questions, main, button) {
  button.disabled = true;
  const words = ["method", "dataset", "status", "type", "analysed", "workflow", "replied_by", "correction"].filter((name) => questions.names(name).some(Boolean));
  const lines = [["query_id", "question", "answer", ...words, "cited", ...questions.measures, "sources", "links"]];
  for (const row of chosenRows(questions, view, main)) {
    const detail = await detailOf(row);
    const places = detail ? detail.sources.map((source) => [source[5].file || source[0], source[5].section].filter(Boolean).join(", ")) : [];
    const links = detail ? detail.sources.map((source) => source[5].link).filter(Boolean) : [];
    lines.push([questions.id(row), (detail && detail.question) || questions.question(row), detail ? detail.answer : questions.answer(row),
      ...words.map((name) => questions[name](row)), questions.cited(row) ? "yes" : "no",
      ...questions.measures.map((name) => questions.measure(name, row)), places.join("; "), links.join(" ")]);
  }
  const text = lines.map((cells) => cells.map(csvCell).join(",")).join("\r\n") + "\r\n";
  const address = URL.createObjectURL(new Blob(["\ufeff" + text], { type: "text/csv" }));
  el("a", { href: address, download: overview.title.replace(/[^\w.-]+/g, "-") + ".csv" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
  button.disabled = false;
}

/** Quote a CSV cell so that no spreadsheet takes it for a formula. */
function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? "'" + value : value;
  return /[",\r\n]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
}
