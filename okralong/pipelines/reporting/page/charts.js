// The pictures, drawn as SVG at the width that there is.

const colour = (n) => "c" + (n % 8);

/** Return about `wanted` round numbers from low to high. */
function ticks(low, high, wanted) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(n * step);
  return found;
}

function short(measure, value) {
  const sign = measure.endsWith("_usd") ? "$" : "";
  const unit = measure.startsWith("seconds") ? " s" : "";
  if (value >= 1e6) return sign + +(value / 1e6).toPrecision(3) + "M" + unit;
  if (value >= 1e4 || (value >= 1e3 && measure.endsWith("tokens"))) return sign + +(value / 1e3).toPrecision(3) + "k" + unit;
  return sign + +value.toPrecision(3) + unit;
}

/** A scale for costs: logarithmic if they span more than a factor of eight, else linear from 0. */
function costScale(values, left, right) {
  const high = Math.max(...values), low = Math.min(...values);
  if (low > 0 && high / low > 8) {
    const from = Math.log10(low / 1.25), to = Math.log10(high * 1.25);
    const marks = [];
    for (let p = Math.floor(from); p <= to; p++) for (const m of [1, 2, 5]) {
      const at = Math.log10(m * 10 ** p);
      if (at >= from && at <= to) marks.push(m * 10 ** p);
    }
    return { at: (v) => left + ((Math.log10(Math.max(v, 1e-12)) - from) / (to - from)) * (right - left), marks, log: true };
  }
  const top = (high || 1) * 1.12;
  return { at: (v) => left + (v / top) * (right - left), marks: ticks(0, top, 5), log: false };
}

/** Draw cost against accuracy: a point with intervals for each label, and the frontier if there is one. */
function scatter(panel, accuracy, cost, labels, width) {
  const height = Math.max(260, Math.min(420, width * 0.55));
  const box = { left: 46, right: width - 16, top: 14, bottom: height - 44 };
  const points = panel.points.filter((p) => p.figures[accuracy] && p.figures[cost]);
  if (!points.length) return el("p", { class: "soft", text: "No question has both measures." });
  const costs = points.flatMap((p) => p.figures[cost].slice(0, 3).filter((v) => v !== null));
  const x = costScale(costs, box.left, box.right);
  const tops = points.flatMap((p) => p.figures[accuracy].slice(0, 3).filter((v) => v !== null));
  const top = Math.min(1, Math.max(0.1, Math.ceil(Math.max(...tops) * 10 + 0.2) / 10));
  const y = (v) => box.bottom - (v / top) * (box.bottom - box.top);
  const root = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img",
    "aria-label": `${overview.measures[accuracy]} against ${overview.measures[cost]}` });
  for (const mark of ticks(0, top, 5)) root.append(
    svg("line", { class: "axis", x1: box.left, x2: box.right, y1: y(mark), y2: y(mark) }),
    svg("text", { x: box.left - 8, y: y(mark) + 4, "text-anchor": "end", text: +mark.toFixed(2) }));
  let last = -99;
  for (const mark of x.marks) {
    const at = x.at(mark);
    if (at - last < 44) continue;
    last = at;
    root.append(svg("line", { class: "axis", x1: at, x2: at, y1: box.bottom, y2: box.bottom + 5 }),
      svg("text", { x: at, y: box.bottom + 18, "text-anchor": "middle", text: short(cost, mark) }));
  }
  root.append(svg("text", { x: box.right, y: height - 6, "text-anchor": "end",
    text: `${overview.measures[cost]} per question${x.log ? ", log scale" : ""}` }));
  const frontier = panel.frontiers[`${accuracy} ${cost}`] || [];
  const place = (p) => [x.at(p.figures[cost][0]), y(p.figures[accuracy][0])];
  const onIt = frontier.map((name) => points.find((p) => p.label === name)).filter(Boolean);
  if (onIt.length > 1) root.append(svg("polyline", { class: "frontier", points: onIt.map((p) => place(p).join(",")).join(" ") }));
  const taken = [];
  for (const point of points) {
    const look = colour(labels.indexOf(point.label)), [cx, cy] = place(point);
    const [, cl, ch, n] = point.figures[cost], [, al, ah] = point.figures[accuracy];
    const group = svg("g", { class: look }, svg("title", { text: `${point.label}: ${overview.measures[accuracy]} ` +
      `${figure(accuracy, point.figures[accuracy][0])}, ${figure(cost, point.figures[cost][0])} (${counted(n, "question")})` }));
    if (al !== null && ah !== null) group.append(svg("line", { class: "interval stroke", x1: cx, x2: cx, y1: y(al), y2: y(Math.min(ah, top)) }));
    if (cl !== null && ch !== null) group.append(svg("line", { class: "interval stroke", x1: x.at(cl), x2: x.at(ch), y1: cy, y2: cy }));
    group.append(svg("circle", { class: "fill", cx, cy, r: frontier.includes(point.label) ? 6.5 : 5 }));
    root.append(group);
    taken.push([cx - 7, cy - 7, 14, 14]);
  }
  for (const point of points) root.append(nameOf(point.label, place(point), taken, box));
  return root;
}

/** Draw a point's name unless it would cover a point or another name. */
function nameOf(label, [cx, cy], taken, box) {
  const words = label.length > 34 ? label.slice(0, 33) + "…" : label;
  const wide = words.length * 6.4 + 4;
  const clash = ([x, y]) => x < box.left || x + wide > box.right + 14 || y < box.top - 12 || y + 14 > box.bottom + 4 ||
    taken.some(([a, b, w, h]) => x < a + w && a < x + wide && y < b + h && b < y + 14);
  const tries = [0, -12, 12, -24, 24, -36, 36, -52, 52].flatMap((dy) => [[cx + 10, cy - 8 + dy], [cx - 10 - wide, cy - 8 + dy]]);
  const [x, y] = tries.find((at) => !clash(at)) || tries[0];
  taken.push([x, y, wide, 14]);
  return svg("text", { class: "name over", x, y: y + 12, text: words });
}

/** Draw stacked bars; `share` gives all bars full width and shows the parts as shares. */
function bars(data, share, unit, width) {
  const name = Math.min(165, width * 0.32), row = 30, end = width - (share ? 10 : 62);
  const sums = data.bars.map((bar) => Math.max(bar.parts.reduce((a, b) => a + b, 0), bar.total || 0));
  const most = Math.max(...sums, 1e-9);
  const root = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${data.bars.length * row + 4}`, height: data.bars.length * row + 4, role: "img",
    "aria-label": `${data.bars.length} bars of ${data.parts.join(", ")}` });
  data.bars.forEach((bar, at) => {
    const y = at * row + 4, whole = share ? sums[at] || 1 : most;
    const scale = (v) => (v / whole) * (end - name);
    const words = bar.label.length * 6.3 > name - 8 ? bar.label.slice(0, Math.floor((name - 8) / 6.6)) + "…" : bar.label;
    root.append(svg("text", { class: "name", x: name - 8, y: y + 15, "text-anchor": "end", text: words }, svg("title", { text: bar.label })));
    let x = name;
    bar.parts.forEach((value, part) => {
      const wide = scale(value);
      if (!value) return;
      const words = share ? String(value) : value.toFixed(1);
      root.append(svg("rect", { class: `fill ${colour(part)}`, x, y, width: Math.max(wide, 0.5), height: row - 9, rx: 2 },
        svg("title", { text: `${bar.label}, ${data.parts[part]}: ${share ? value + " of " + bar.n : value.toFixed(2) + unit}` })));
      if (wide > words.length * 7 + 8) root.append(svg("text", { class: "inbar", x: x + wide / 2, y: y + 15, "text-anchor": "middle", text: words }));
      x += wide;
    });
    if (!share && bar.total !== null) {
      const at = name + scale(bar.total);
      root.append(svg("line", { class: "total", x1: at, x2: at, y1: y - 3, y2: y + row - 6 }, svg("title", { text: `total ${bar.total.toFixed(2)}${unit}` })),
        svg("text", { x: Math.max(at, x) + 6, y: y + 15, text: bar.total.toFixed(1) + unit }));
    }
  });
  return root;
}

function legend(names) {
  return el("ul", { class: "legend" }, names.map((name, at) => el("li", {}, el("i", { class: colour(at) }), el("span", { text: name }))));
}

/** The confusion matrix: gold types in rows, the analyzer's in columns, shaded by the share of the row. */
function confusionTable(matrix) {
  const shown = (label) => label.replace("multi-", "multi-\u200b");
  const head = el("tr", {}, el("th", { text: "gold ↓  analyzer →" }), matrix.labels.map((label) => el("th", { scope: "col", text: shown(label) })));
  const rows = matrix.counts.map((counts, gold) => {
    const sum = counts.reduce((a, b) => a + b, 0);
    return el("tr", {}, el("th", { scope: "row", text: shown(matrix.labels[gold]) }), counts.map((count, guess) => {
      const share = sum ? count / sum : 0;
      return el("td", { class: `${gold === guess ? "c0" : "c1"} ${share > 0.55 ? "strong" : count ? "" : "zero"}`,
        vars: { "--share": Math.round(share * 100) + "%" }, title: `${matrix.labels[gold]} classified as ${matrix.labels[guess]}: ${count} of ${sum}`, text: count });
    }));
  });
  return el("table", { class: "confusion" }, el("thead", {}, head), el("tbody", {}, rows));
}
