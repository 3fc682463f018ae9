// The inputs of one log as cards, sorted as asked.
const { sets, logs } = JSON.parse(document.getElementById("gallery-data").textContent);
const [chosen, order, failedFirst, status, cards, more] = ["gallery-log", "gallery-order", "gallery-failed",
  "gallery-status", "cards", "gallery-more"].map((id) => document.getElementById(id));
const STEP = 24, ABSTAIN = -1, SHOWN_SIDE = 72;
const orders = {
  input: (a, b) => a.place - b.place,
  largest: (a, b) => b.radius - a.radius || a.place - b.place,
  smallest: (a, b) => a.radius - b.radius || a.place - b.place,
};
let limit = STEP;

function inputs(log) {
  const { idx, label } = sets[log.set];
  return idx.map((number, place) => ({
    number, place, label: label[place], predict: log.predict[place], radius: log.radius[place],
    counts: log.counts?.[place] ?? [], failed: log.predict[place] !== label[place],
  }));
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function picture({ pictures }, input) {
  const made = element("div", "picture");
  const across = pictures.across;
  made.style.backgroundSize = `${across * SHOWN_SIDE}px auto`;
  made.style.backgroundPosition = `${-(input.place % across) * SHOWN_SIDE}px ${-Math.floor(input.place / across) * SHOWN_SIDE}px`;
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", `picture of input ${input.number}`);
  return made;
}

function votes(counts, named) {
  const said = [];
  for (let k = 0; k < counts.length; k += 2) {
    const name = counts[k] < 0 ? "others" : named(counts[k]);
    said.push(element("span", "", `${name}: ${counts[k + 1].toLocaleString("en")}`), " ");
  }
  return said;
}

function card(set, input) {
  const named = (label) => set.classes?.[label] ?? String(label);
  const verdict = input.predict === ABSTAIN ? "abstained" : input.failed ? "wrong" : "correct";
  const made = element("li", `card ${verdict}`);
  made.dataset.radius = input.radius;
  made.dataset.verdict = verdict;
  if (set.pictures) made.append(picture(set, input));
  const facts = element("dl");
  const fact = (name, text, className) => {
    facts.append(element("dt", "", name), element("dd", className, text));
    return facts.lastChild;
  };
  fact("input", String(input.number));
  fact("true", named(input.label));
  fact("predicted", input.predict === ABSTAIN ? "abstained" : named(input.predict) + (input.failed ? ", wrong" : ""), "predicted");
  fact("radius", input.radius.toFixed(4));
  if (input.counts.length) fact("votes", "", "votes").append(...votes(input.counts, named));
  made.append(facts);
  return made;
}

function show() {
  const log = logs[chosen.value], set = sets[log.set];
  const sorted = inputs(log).sort(orders[order.value]);
  if (failedFirst.checked) sorted.sort((a, b) => b.failed - a.failed);
  cards.style.setProperty("--pictures", set.pictures ? `url(${set.pictures.address})` : "none");
  cards.replaceChildren(...sorted.slice(0, limit).map((input) => card(set, input)));
  const failed = sorted.filter((input) => input.failed);
  const abstained = failed.filter((input) => input.predict === ABSTAIN).length;
  status.textContent = `${Math.min(limit, sorted.length)} of ${sorted.length} inputs, `
    + `${failed.length - abstained} wrong and ${abstained} abstained; by ${order.selectedOptions[0].textContent}`
    + (failedFirst.checked ? ", wrong and abstained first" : "");
  more.hidden = limit >= sorted.length;
}

function restart() {
  limit = STEP;
  show();
}

for (const control of [chosen, order, failedFirst]) control.addEventListener("change", restart);
more.addEventListener("click", () => {
  const first = limit;
  limit += STEP;
  show();
  cards.children[first].tabIndex = -1;
  cards.children[first].focus();
});
show();
