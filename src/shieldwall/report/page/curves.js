// Toggles decide which curves, table rows and training lines are seen; the charts are handed the rest as data.
const data = JSON.parse(document.getElementById("data").textContent);
const toggles = [...document.querySelectorAll(".toggles input")];
const NOTHING_LEFT = "No curve is left with these choices; check more of them.";
const hovered = new Set(data.hovered);
const embedding = {
  actions: false,
  renderer: "svg",
  ast: true,
  tooltip: (handler, event, item, facts) => tellAt(event, facts),
  expressionFunctions: { curveTitle: (point) => titles[point], runTitle: (c) => data.runs[c].title },
};
let titles = [];
document.documentElement.classList.add("scripted");

function checked(name) {
  const named = toggles.filter((input) => input.name === name);
  const on = new Set(named.filter((input) => input.checked).map((input) => Number(input.value)));
  return (value) => named.length === 0 || on.has(value);
}

function visibleCurves() {
  const [method, protocol, sigma, envelope] = ["method", "protocol", "sigma", "envelope"].map(checked);
  return data.curves.map((curve) =>
    method(curve.method) && protocol(curve.protocol) && (curve.envelope ? envelope(0) : sigma(curve.sigma)));
}

function visibleRuns() {
  const [method, sigma] = ["method", "sigma"].map(checked);
  return data.runs.map((run) => method(run.method) && sigma(run.sigma));
}

// Ensembles are drawn first and envelopes last, so that dashes lie on what is solid.
const drawingOrder = [...data.curves.keys()].sort((a, b) => {
  const [one, other] = [data.curves[a], data.curves[b]];
  return one.envelope - other.envelope || one.protocol - other.protocol || a - b;
});

function row(c, k) {
  return { c, k, r: data.radii[k], a: data.curves[c].accuracy[k], width: data.curves[c].width };
}

function curveData(visible) {
  const seen = drawingOrder.filter((c) => visible[c]);
  const marked = (key) => seen.filter((c) => data.curves[c][key]).flatMap((c) => (
    data.curves[c].marks.map((k) => ({ ...row(c, k), number: data.curves[c].number }))));
  const curves = seen.flatMap((c) => data.curves[c].accuracy.map((a, k) => row(c, k)));
  return { curves, symbols: marked("symbol"), numbers: marked("number"), points: nearPoints(curves) };
}

// One point where several curves meet: that of an envelope if there is one. Its title counts the others.
function nearPoints(rows) {
  const met = new Map();
  for (const one of rows.filter(({ k }) => hovered.has(k))) {
    const key = `${one.k} ${one.a}`;
    met.set(key, [...(met.get(key) ?? []), one]);
  }
  titles = [];
  return [...met.values()].map((here) => {
    const first = here.find(({ c }) => data.curves[c].envelope) ?? here[0];
    const others = ["", " (and 1 other curve)"][here.length - 1] ?? ` (and ${here.length - 1} other curves)`;
    return { ...first, point: titles.push(data.curves[first.c].title + others) - 1 };
  });
}

function trainingData(lines, visible) {
  const rows = lines.filter((line) => visible[line.run]).flatMap((line) => line.epochs.map((epoch, k) => (
    { c: line.run, k, epoch, value: line.values[k] })));
  const stride = Math.ceil(rows.length / 600);
  return { lines: rows, points: rows.filter(({ k }) => k % stride === 0) };
}

function markBest(table) {
  const rows = [...table.querySelectorAll("tbody tr")].filter((row) => !row.hidden);
  for (const cell of table.querySelectorAll("td.best")) {
    cell.classList.remove("best");
    cell.querySelector(".unseen")?.remove();
  }
  for (let column = 1; rows.length > 1 && column < rows[0].cells.length; column += 1) {
    const cells = rows.map((row) => row.cells[column]).filter((cell) => "ranked" in cell.dataset);
    const texts = cells.map((cell) => cell.textContent);
    if (new Set(texts).size < 2) continue;
    const top = Math.max(...texts.map(Number));
    for (const cell of cells.filter((one) => Number(one.textContent) === top)) {
      cell.classList.add("best");
      const spoken = document.createElement("span");
      spoken.className = "unseen";
      spoken.textContent = ", best";
      cell.append(spoken);
    }
  }
}

function hide(selector, key, visible) {
  for (const element of document.querySelectorAll(selector)) element.hidden = !visible[element.dataset[key]];
}

function tellHowMany(curves) {
  const count = curves.filter(Boolean).length, shown = document.getElementById("shown");
  shown.classList.toggle("unseen", count > 0);
  shown.textContent = count > 0 ? `${count} of ${curves.length} curves shown` : NOTHING_LEFT;
  for (const note of document.querySelectorAll(".nothing")) {
    const rows = [...note.parentElement.querySelectorAll("[data-curve], [data-run]")];
    const hidden = rows.filter((row) => row.hidden).length;
    note.hidden = hidden === 0;
    if (hidden === rows.length) note.textContent = "No row is left with the choices above.";
    else note.textContent = `${hidden} ${hidden === 1 ? "row is" : "rows are"} hidden by the choices above.`;
  }
}

const views = [];

async function show() {
  const curves = visibleCurves(), runs = visibleRuns();
  hide("[data-curve]", "curve", curves);
  hide("[data-run]", "run", runs);
  document.querySelectorAll("table[data-marked]").forEach(markBest);
  tellHowMany(curves);
  await Promise.all(views.map(({ view, parts }) => {
    for (const [name, rows] of Object.entries(parts(curves, runs))) view.data(name, rows);
    return view.runAsync();
  }));
}

async function embed(selector, chart, parts) {
  const place = document.querySelector(selector);
  const { view } = await vegaEmbed(place, chart, embedding);
  place.setAttribute("role", "img");
  place.removeAttribute("aria-roledescription");
  view.addEventListener("click", (event, item) => tellAt(event, item?.tooltip));
  views.push({ view, parts });
}

for (const input of toggles) input.addEventListener("change", show);
await embed("#chart", data.chart, curveData);
await show();
document.getElementById("static").remove();
for (const [k, panel] of data.panels.entries()) {
  await embed(`#panel-${k}`, panel.chart, (curves, runs) => trainingData(panel.lines, runs));
  document.getElementById(`static-${k}`).remove();
}
await show();
document.documentElement.dataset.ready = "yes";
