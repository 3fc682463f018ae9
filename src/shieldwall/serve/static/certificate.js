// What is known of the image: the answer, its radius, the votes, and how the radius came about.

import { $, downTo3, known, number } from "./common.js";

const MOST_BARS = 12;
const TICK_WIDTH = 50;
const NORMS = { l1: "L1", l2: "L2", linf: "Linf" };

let plan = null; // what the server said when it started: n, alpha, limit, norm, is_by_member
let points = []; // [samples, radius]

export function reset(n) {
  plan = null;
  points = [];
  $("answer").textContent = "none yet";
  $("radius-name").textContent = "Certified radius";
  $("radius").textContent = "none";
  $("answer").className = $("radius").className = "unsure";
  $("draws").textContent = "0";
  $("progress").value = 0;
  $("copies").replaceChildren(...Array.from({ length: known.copies }, emptyPlace));
  say("Nothing is sampled yet: give an image.", "");
  showVotes(known.classes.map(() => 0), -1, 0);
  drawCurve(n);
}

export function say(meaning, summary = meaning) {
  $("meaning").textContent = meaning;
  if ($("summary").textContent !== summary) $("summary").textContent = summary; // read aloud when it changes
}

export function begin(started) {
  plan = started;
  $("votes-title").textContent = plan.is_by_member ? "Votes, the most by any member" : "Votes";
  $("copies-title").textContent = plan.is_by_member ? "Noisy copies and every member's vote" : "Noisy copies and their votes";
  $("copies").replaceChildren(...started.copies.map(noisyCopy));
  drawCurve(plan.n);
}

function emptyPlace() {
  const item = document.createElement("li");
  item.ariaHidden = "true";
  const place = document.createElement("div");
  place.className = "place";
  item.append(place);
  return item;
}

function noisyCopy({ image, labels }, k) {
  const item = document.createElement("li");
  const copy = new Image();
  copy.src = image;
  copy.className = "place";
  copy.alt = `Noisy copy ${k + 1}, voted`;
  item.append(copy);
  for (const label of labels) {
    const vote = document.createElement("span");
    vote.textContent = known.classes[label];
    item.append(vote, " ");
  }
  return item;
}

export function show({ draws, counts, chosen, label, radius }, isOver) {
  const name = known.classes[chosen];
  const isCertified = label !== null;
  const rounded = downTo3(radius);
  $("answer").textContent = isCertified ? name : isOver ? "abstains" : `${name}?`;
  $("radius-name").textContent = isOver ? "Certified radius" : "Certified radius so far";
  $("radius").textContent = isCertified ? `${isOver ? "" : "≥ "}${rounded}` : "none";
  $("answer").className = $("radius").className = isCertified ? "" : "unsure";
  $("draws").textContent = number(draws);
  $("progress").value = draws / plan.n;
  const confidence = `${+(100 * (1 - plan.alpha)).toPrecision(6)}%`;
  const missing = plan.is_by_member
    ? "its shares with the surest and the least sure member are not shown to add up to more than 100%"
    : "it is not shown to be returned more than half of the time";
  const meaning = isCertified
    ? `With probability at least ${confidence}, no change of the image below ${rounded} (${NORMS[plan.norm]}) changes the smoothed answer, ${name}.`
    : `Nothing is certified${isOver ? "" : " yet"}: ${name} seemed likeliest, but ${missing}.`;
  const result = isCertified ? `Prediction ${name}, certified radius ${rounded}.` : "The certificate abstains.";
  const ended = `${draws === plan.n ? "Done" : "Stopped"} after ${number(draws)} samples. ${result} ${meaning}`;
  say(meaning, isOver ? ended : $("summary").textContent);
  showVotes(counts, chosen, draws);
  for (const vote of document.querySelectorAll("#copies span")) vote.className = vote.textContent === name ? "" : "other";
  points.push([draws, radius]);
  drawCurve(plan.n, isOver);
}

function showVotes(counts, chosen, draws) {
  const list = $("votes");
  let rows = counts.map((_, k) => k);
  if (rows.length > MOST_BARS) rows = rows.sort((a, b) => counts[b] - counts[a]).slice(0, MOST_BARS);
  while (list.children.length < rows.length) {
    const row = document.createElement("li");
    row.innerHTML = '<span class="class"></span><span class="bar" aria-hidden="true"><i></i></span>'
      + '<span class="count"><span></span> <span class="share"></span></span>';
    list.append(row);
  }
  rows.forEach((k, place) => {
    const row = list.children[place];
    const share = draws ? counts[k] / draws : 0;
    row.className = k === chosen ? "chosen" : "";
    row.querySelector(".class").textContent = known.classes[k];
    row.querySelector("i").style.transform = `scaleX(${share})`;
    row.querySelector(".count span").textContent = number(counts[k]);
    row.querySelector(".share").textContent = draws ? `(${(100 * share).toFixed(1)}%)` : "";
  });
}

function part(name, attributes, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

// Powers of ten and n, but for a power whose label would run into that of n.
function ticks(n, x) {
  const places = [n];
  for (let draws = 10; draws < n; draws *= 10) if (x(n) - x(draws) > TICK_WIDTH) places.push(draws);
  return places;
}

function drawCurve(n, isOver = false) {
  const [left, right, top, bottom] = [34, 334, 17, 196];
  const x = (draws) => left + ((right - left) * Math.log10(Math.max(draws, 10) / 10)) / Math.log10(n / 10);
  const y = (radius) => bottom - ((bottom - top) * radius) / (plan?.limit ?? 1);
  const parts = [part("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom })];
  for (const draws of ticks(n, x)) {
    parts.push(part("line", { class: "axis", x1: x(draws), x2: x(draws), y1: bottom, y2: bottom + 4 }));
    parts.push(part("text", { x: x(draws), y: bottom + 17, "text-anchor": "middle" }, number(draws)));
  }
  parts.push(part("text", { x: right, y: bottom + 33, "text-anchor": "end" }, "samples, log scale"));
  if (plan) {
    const power = 10 ** Math.floor(Math.log10(plan.limit));
    const step = plan.limit < 2 * power ? power / 4 : plan.limit < 5 * power ? power / 2 : power;
    for (let radius = 0; radius < plan.limit - 0.3 * step; radius += step) {
      parts.push(part("line", { class: "axis", x1: left, x2: right, y1: y(radius), y2: y(radius) }));
      parts.push(part("text", { x: left - 6, y: y(radius) + 4, "text-anchor": "end" }, +radius.toPrecision(3)));
    }
    const most = `${downTo3(plan.limit)}, the most that ${number(n)} samples can certify`;
    parts.push(part("line", { class: "limit", x1: left, x2: right, y1: top, y2: top }));
    parts.push(part("text", { x: left + 4, y: top - 5 }, most));
  }
  if (points.length) {
    const [draws, radius] = points.at(-1);
    const line = points.map((point) => `${x(point[0])},${y(point[1])}`).join(" ");
    parts.push(part("polyline", { class: "line", points: line }));
    parts.push(part("circle", { class: isOver ? "end" : "point", cx: x(draws), cy: y(radius), r: isOver ? 4.5 : 3.5 }));
    const reached = isOver ? `, ${downTo3(radius)} after ${number(draws)}` : "";
    $("curve").setAttribute("aria-label", `Certified radius by number of samples${reached}`);
  }
  $("curve").replaceChildren(...parts);
}
