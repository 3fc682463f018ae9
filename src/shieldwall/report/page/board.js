// Headings sort the rows, toggles hide and show them; the best is marked among the shown rows of each group.
const table = document.getElementById("board"), body = table.tBodies[0];
const rows = [...body.rows];
const toggles = [...document.querySelectorAll(".toggles input")];
const headings = [...table.tHead.rows[0].cells];

function own(cell) {
  return (cell.firstElementChild?.tagName === "A" ? cell : cell.firstChild ?? cell).textContent.trim();
}

function compare(one, other, column, sign) {
  const [a, b] = [one, other].map((row) => own(row.cells[column]));
  const isNumber = "number" in headings[column].dataset;
  const [x, y] = isNumber ? [a, b].map((text) => parseFloat(text.replace(/[≥,]|up to /g, ""))) : [a, b];
  if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);  // a dash comes last
  return sign * ((x > y) - (x < y));
}

function sort(column) {
  const heading = headings[column], before = heading.getAttribute("aria-sort");
  const first = "largestFirst" in heading.dataset ? "descending" : "ascending";
  const order = before === null ? first : before === "ascending" ? "descending" : "ascending";
  for (const each of headings) each.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", order);
  body.append(...rows.sort((one, other) => compare(one, other, column, order === "ascending" ? 1 : -1)));
}

function markBest(group) {
  for (const cell of group.flatMap((row) => [...row.querySelectorAll(".best")])) {
    cell.classList.remove("best");
    cell.querySelector(".unseen")?.remove();
  }
  const shown = group.filter((row) => !row.hidden);
  for (let column = 1; column < headings.length; column += 1) {
    const cells = shown.map((row) => row.cells[column]).filter((cell) => "ranked" in cell.dataset);
    const texts = cells.map((cell) => cell.textContent.trim());
    if (new Set(texts).size < 2) continue;
    const top = Math.max(Number.MIN_VALUE, ...texts.map(Number).filter((value) => !Number.isNaN(value)));
    for (const cell of cells.filter((each) => Number(each.textContent) === top)) {
      cell.classList.add("best");
      const spoken = document.createElement("span");
      spoken.className = "unseen";
      spoken.textContent = ", best";
      cell.append(spoken);
    }
  }
}

function show() {
  for (const row of rows) {
    const chosen = (toggle) => row.dataset[toggle.name] === toggle.value;
    row.hidden = toggles.some((toggle) => !toggle.checked && chosen(toggle));
  }
  for (const group of new Set(rows.map((row) => row.dataset.group))) {
    markBest(rows.filter((row) => row.dataset.group === group));
  }
  const count = rows.filter((row) => !row.hidden).length;
  document.getElementById("shown").textContent = `${count} of ${rows.length} rows shown`;
}

for (const [column, heading] of headings.entries()) heading.addEventListener("click", () => sort(column));
for (const toggle of toggles) toggle.addEventListener("change", show);
document.documentElement.classList.add("scripted");
show();
document.documentElement.dataset.ready = "yes";
