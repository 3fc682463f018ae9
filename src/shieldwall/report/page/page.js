// Toggles hide and show curves, table rows and training lines; the pointer is told the value it is nearest to.
const data = JSON.parse(document.getElementById("data").textContent);
const toggles = [...document.querySelectorAll(".toggles input")];
const NOTHING_LEFT = "No curve is left with these choices; check more of them.";
let curves = [], runs = [];

function checked(name) {
  const named = toggles.filter((input) => input.name === name);
  const on = new Set(named.filter((input) => input.checked).map((input) => Number(input.value)));
  return (value) => named.length === 0 || on.has(value);
}

function hide(key, visible) {
  for (const element of document.querySelectorAll(`[data-${key}]`)) {
    element.toggleAttribute("hidden", !visible[element.dataset[key]]);
  }
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
    const top = Math.max(Number.MIN_VALUE, ...texts.map(Number).filter((number) => !Number.isNaN(number)));
    for (const cell of cells.filter((one) => Number(one.textContent) === top)) {
      cell.classList.add("best");
      const spoken = element("span", ", best");
      spoken.className = "unseen";
      cell.append(spoken);
    }
  }
}

function tellHowMany() {
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

function show() {
  const [method, protocol, sigma, envelope] = ["method", "protocol", "sigma", "envelope"].map(checked);
  curves = data.curves.map((curve) =>
    method(curve.method) && protocol(curve.protocol) && (curve.envelope ? envelope(0) : sigma(curve.sigma)));
  runs = data.runs.map((run) => method(run.method) && sigma(run.sigma));
  hide("curve", curves);
  hide("run", runs);
  document.querySelectorAll("table[data-marked]").forEach(markBest);
  tellHowMany();
}

// The tip stands beside the pointer and inside the window; a finger must not lie on it.
const tip = document.createElement("dl");
const GAP = 14, EDGE = 8;
let dot = null, touched = false;
tip.id = "tip";
tip.hidden = true;
document.body.append(tip);

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function hideTip() {
  tip.hidden = true;
  dot?.remove();
}

function beside(at, size, room, before) {
  const wanted = before || at + GAP + size > room - EDGE ? at - GAP - size : at + GAP;
  return `${Math.max(EDGE, Math.min(wanted, room - EDGE - size))}px`;
}

function showTip(event, facts) {
  tip.replaceChildren(...Object.entries(facts).flatMap(([name, fact]) => [element("dt", name), element("dd", fact)]));
  tip.hidden = false;
  const { clientWidth, clientHeight } = document.documentElement;
  tip.style.left = beside(event.clientX, tip.offsetWidth, clientWidth, false);
  tip.style.top = beside(event.clientY, tip.offsetHeight, clientHeight, touched);
}

// Where several curves meet, that of an envelope is named if there is one; the others are counted.
function nearest(lines, box, place, event) {
  let best = [], least = Infinity;
  for (const line of lines) {
    line.x.forEach((x, k) => {
      if (line.y[k] === null || line.y[k] === undefined) return;
      const [left, top] = place(x, line.y[k]);
      const far = Math.hypot((left / 100) * box.width + box.left - event.clientX, (top / 100) * box.height + box.top - event.clientY);
      if (far < least - 1e-6) [best, least] = [[], far];
      if (far < least + 1e-6) best.push({ line, x, y: line.y[k], left, top });
    });
  }
  return { point: best.find(({ line }) => line.envelope) ?? best[0], others: best.length - 1 };
}

function watch(plot, axes, linesInView, tell) {
  const place = (x, y) => [
    (100 * (x - axes.x[0])) / (axes.x[1] - axes.x[0]), 100 - (100 * (y - axes.y[0])) / (axes.y[1] - axes.y[0])];
  function look(event) {
    const { point, others } = nearest(linesInView(), plot.getBoundingClientRect(), place, event);
    hideTip();
    if (!point) return;
    dot = element("i", "");
    dot.className = "dot";
    dot.style.cssText = `left:${point.left}%;top:${point.top}%`;
    plot.append(dot);
    showTip(event, tell(point, ["", " (and 1 other curve)"][others] ?? ` (and ${others} other curves)`));
  }
  plot.addEventListener("pointermove", (event) => event.pointerType !== "touch" && look(event));
  plot.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && hideTip());
  plot.addEventListener("click", look);
}

addEventListener("pointerdown", (event) => {
  touched = event.pointerType === "touch";
  hideTip();
}, { capture: true });
addEventListener("scroll", () => touched && hideTip(), { capture: true, passive: true });
for (const input of toggles) input.addEventListener("change", show);
const curveLines = data.curves.map(({ title, envelope, accuracy }) => ({ title, envelope, x: data.radii, y: accuracy }));
for (const [k, drawn] of data.charts.entries()) {
  const plot = document.querySelector(`#chart${k ? `-${k}` : ""} .plot`);
  watch(plot, drawn.axes, () => curveLines.filter((_, c) => curves[c] && drawn.curves.includes(c)), (point, more) => (
    { curve: point.line.title + more, radius: Number(point.x.toFixed(4)), "certified accuracy, %": point.y.toFixed(2) }));
}
for (const [k, panel] of data.panels.entries()) {
  const lines = panel.lines.map(({ run, epochs, values }) => ({ run, x: epochs, y: values }));
  watch(document.querySelector(`#panel-${k} .plot`), panel.axes, () => lines.filter(({ run }) => runs[run]), (point) => (
    { run: data.runs[point.line.run].title, epoch: point.x, [panel.title]: Number(point.y.toPrecision(4)) }));
}
document.documentElement.classList.add("scripted");
show();
document.documentElement.dataset.ready = "yes";
