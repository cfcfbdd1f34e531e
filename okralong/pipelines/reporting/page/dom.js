// Making elements. Everything on the page is made here, and text becomes text nodes only: markup in it stays words.

const SVG = "http://www.w3.org/2000/svg";

/** Set attributes and append children. Functions become listeners, "text" sets the text, false is skipped. */
function dressed(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else if (name === "text") node.textContent = value;
    else if (name === "vars") for (const [key, set] of Object.entries(value)) node.style.setProperty(key, set);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

const el = (tag, attributes, ...children) => dressed(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => dressed(document.createElementNS(SVG, tag), attributes, children);
const byId = (id) => document.getElementById(id);

/** Untrusted text, inline or as a block with its line breaks; isolated in its reading direction. */
const said = (text, tag = "span") => el(tag, { class: "said", dir: "auto", text });
const block = (text) => el("div", { class: "block", dir: "auto", text });

/** A select element with [value, label] pairs. */
function choice(label, options, value, changed) {
  const select = el("select", { "aria-label": label, change: (event) => changed(event.target.value) },
    options.map(([key, name]) => el("option", { value: key, text: name, selected: key === value })));
  return el("label", {}, el("span", { text: label }), select);
}

/** A number with its noun: "1 question", "2,000 questions". */
const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** Format figures for readers. */
function figure(measure, value) {
  if (value === null || value === undefined) return "–";
  if (measure.endsWith("_usd")) return "$" + (value === 0 || value >= 1 ? value.toFixed(2) : value.toFixed(4));
  if (measure.startsWith("seconds")) return value.toFixed(value < 100 ? 1 : 0);
  if (measure.endsWith("tokens")) return Math.round(value).toLocaleString("en");
  return value.toFixed(2);
}

/** Draw into a box now, and again when its width changes. */
function drawn(box, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (Math.abs(box.clientWidth - width) < 2) return;
    width = box.clientWidth;
    box.replaceChildren(...[draw(width)].flat(Infinity));
  }).observe(box);
  return box;
}
