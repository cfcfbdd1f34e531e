// The upper part of the page: set-up, results, charts and tables.

const sections = [];

/** A card that is linked in the bar at the top. */
function section([id, short], title, ...children) {
  sections.push([id, short]);
  return el("section", { class: "card", id }, el("h2", { text: title }), children);
}

function header() {
  return [
    el("h1", { text: overview.title }),
    el("ul", { class: "facts" }, overview.facts.map(([name, value]) =>
      el("li", {}, el("span", { class: "soft", text: name + " " }), el("b", { class: "said", text: value })))),
    overview.notes.map((note) => el("p", { class: "note", text: note })),
    el("div", { class: "tiles" }, overview.tiles.map(([label, value, note]) =>
      el("div", { class: "tile" }, el("div", { class: "soft small", text: label }), el("div", { class: "value", text: value }),
        el("div", { class: "soft small", text: note })))),
  ];
}

function costAccuracy() {
  if (!overview.accuracy.length || !overview.panels.length) return null;
  const labels = [...new Set(overview.panels.flatMap((panel) => panel.points.map((point) => point.label)))];
  const now = { panel: 0, accuracy: overview.accuracy[0][0], cost: overview.cost[0][0] };
  const picture = el("div", { id: "scatter" });
  const draw = (width) => scatter(overview.panels[now.panel], now.accuracy, now.cost, labels, width);
  const change = (key) => (value) => { now[key] = key === "panel" ? Number(value) : value; picture.replaceChildren(draw(picture.clientWidth)); };
  const panels = overview.panels.map((panel, at) => [String(at), panel.name]);
  const compares = overview.kind === "sweep";
  return section(["cost", "Cost"], "Cost and accuracy",
    el("p", { class: "soft small", text: "Up and to the left is better. Bars are 95 % intervals (bootstrap over documents)." +
      (compares ? " The dashed line is the Pareto frontier: no method is both cheaper and more accurate than those on it." : "") }),
    el("div", { class: "controls" }, panels.length > 1 && choice("Data set", panels, "0", change("panel")),
      choice("Accuracy", overview.accuracy, now.accuracy, change("accuracy")), choice("Cost", overview.cost, now.cost, change("cost"))),
    drawn(picture, draw));
}

function barCards() {
  const cards = [];
  if (overview.latency.bars.length) cards.push(section(["latency", "Latency"], "Latency by stage",
    el("p", { class: "soft small", text: "Mean seconds per question. The mark is the total time; branches run in parallel, so stages may add up to more." }),
    drawn(el("div"), (width) => bars(overview.latency, false, " s", width)), legend(overview.latency.parts)));
  if (overview.mix.bars.length) cards.push(section(["mix", "Workflows"], "Workflow mix",
    el("p", { class: "soft small", text: overview.kind === "run" ? "Questions by the analyzer's type." : "Questions by method." }),
    drawn(el("div"), (width) => bars(overview.mix, true, "", width)), legend(overview.mix.parts)));
  return cards.length ? el("div", { class: cards.length > 1 ? "pair" : "" }, cards) : null;
}

function confusionCard() {
  const matrices = overview.confusions;
  if (!matrices.length) return null;
  const box = el("div");
  const words = el("p", { class: "soft small" });
  const show = (at) => {
    const matrix = matrices[Number(at)];
    words.textContent = `${matrix.right} of ${counted(matrix.n, "question")} (${Math.round((100 * matrix.right) / matrix.n)} %) ${matrix.right === 1 ? "was" : "were"} classified as their gold type.`;
    box.replaceChildren(confusionTable(matrix));
  };
  show(0);
  const names = matrices.map((matrix, at) => [String(at), matrix.name]);
  return section(["analyzer", "Analyzer"], "Question types: gold and analyzer", words,
    names.length > 1 && el("div", { class: "controls" }, choice("Of", names, "0", show)), box);
}

function figureTable(table) {
  const head = table.columns.map(([label, kind]) => el("th", { class: kind, scope: "col", text: label }));
  const rows = table.rows.map((cells) => el("tr", {}, cells.map(([words, interval, best], at) =>
    el("td", { class: table.columns[at][1] + (best ? " best" : ""), "data-label": at > 0 && table.columns[at][0] }, said(words), interval && el("span", { class: "interval", text: interval })))));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": table.title },
    el("table", { class: "figures" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)));
}

function tableCard() {
  return section(["tables", "Tables"], "Tables", overview.tables.map((table, at) => el("details", { class: "table", open: at === 0 },
    el("summary", { text: table.title }), table.note && el("p", { class: "soft small", text: table.note }), figureTable(table))));
}

function setupCard() {
  const text = JSON.stringify(overview.setup, null, 1);
  return el("section", { class: "card setup" }, el("details", {}, el("summary", { text: "Set-up" }), block(text)));
}
