// Toggles decide which curves, table rows and training lines are seen; the charts are handed the rest as data.
const data = JSON.parse(document.getElementById("data").textContent);
const toggles = [...document.querySelectorAll(".toggles input")];
const embedding = {
  actions: false,
  renderer: "svg",
  ast: true,
  tooltip: { theme: "page" },
  expressionFunctions: { curveTitle: (c) => data.curves[c].title, runTitle: (c) => data.runs[c].title },
};
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

function curveRows(visible) {
  const thick = data.curves.some((curve, c) => visible[c] && curve.envelope);
  return data.curves.flatMap((curve, c) => !visible[c] ? [] : curve.accuracy.map((a, k) => (
    { c, k, r: Number((k * data.step).toPrecision(10)), a, width: curve.width,
      opacity: thick && !curve.envelope ? 0.35 : 1 })));
}

function trainingRows(lines, visible) {
  return lines.filter((line) => visible[line.run]).flatMap((line) => line.epochs.map((epoch, k) => (
    { c: line.run, k, epoch, value: line.values[k] })));
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

const views = [];

async function show() {
  const curves = visibleCurves(), runs = visibleRuns();
  hide("[data-curve]", "curve", curves);
  hide("[data-run]", "run", runs);
  document.querySelectorAll("table[data-marked]").forEach(markBest);
  const count = curves.filter(Boolean).length;
  document.getElementById("shown").textContent = `${count} of ${curves.length} curves shown`;
  await Promise.all(views.map(({ view, rows, name }) => {
    const all = rows(curves, runs);
    const stride = name === "curves" ? data.hover_stride : Math.ceil(all.length / 600);
    return view.data(name, all).data("points", all.filter((row) => row.k % stride === 0)).runAsync();
  }));
}

async function embed(place, chart, name, rows) {
  const { view } = await vegaEmbed(place, chart, embedding);
  views.push({ view, rows, name });
}

for (const input of toggles) input.addEventListener("change", show);
await embed("#chart", data.chart, "curves", curveRows);
await show();
document.getElementById("static").remove();
for (const [k, panel] of data.panels.entries()) {
  await embed(`#panel-${k}`, panel.chart, "lines", (curves, runs) => trainingRows(panel.lines, runs));
}
await show();
document.documentElement.dataset.ready = "yes";
