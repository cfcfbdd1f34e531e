// Where it begins.

function themeButton() {
  const button = byId("theme"), order = ["auto", "light", "dark"];
  const show = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = "Theme: " + theme;
  };
  let now = "auto";
  button.addEventListener("click", () => { now = order[(order.indexOf(now) + 1) % order.length]; show(now); });
}

/** Open the question of the fragment: "#q0004" is an id, "#q=12" a row. */
function openNamed(questions) {
  const name = location.hash.slice(1);
  const row = namedRow(questions, name);
  if (row >= 0 && row < questions.count) openQuestion(questions, row);
}

function namedRow(questions, name) {
  const number = /^q=(\d+)$/.exec(name);
  if (number) return Number(number[1]);
  if (!name || byId(name)) return -1;
  for (let row = 0; row < questions.count; row++) if (addressOf(questions, row) === "#" + name || questions.id(row) === name) return row;
  return -1;
}

async function start() {
  themeButton();
  const main = byId("main");
  const waiting = el("p", { class: "soft", text: "Unpacking the questions …" });
  const figures = () => [costAccuracy(), barCards(), confusionCard(), tableCard()];
  const above = overview.kind === "run" ? [header(), waiting] : [header(), figures(), waiting];
  main.append(...above.flat(Infinity).filter(Boolean));
  const questions = await loadQuestions();
  waiting.replaceWith(...[matrixCard(questions), questionsCard(questions)].filter(Boolean));
  if (overview.kind === "run") main.append(...figures().flat(Infinity).filter(Boolean));
  main.append(setupCard(), el("footer", { text: "Made by okralong. This page is self-contained and makes no requests." }));
  byId("nav").append(...sections.map(([id, title]) => el("a", { href: "#" + id, text: title })));
  const dialog = byId("detail");
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => history.replaceState(null, "", location.pathname + location.search));
  addEventListener("hashchange", () => openNamed(questions));
  openNamed(questions);
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  byId("main").append(el("p", { class: "note", text: "This browser cannot show the page (" + error + "). Use a browser of 2024 or later." }));
  throw error;
});
