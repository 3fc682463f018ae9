// What the pointer is nearest to, told beside it and inside the window; a finger must not lie on it.
const tip = document.createElement("dl");
const GAP = 14, EDGE = 8;
let touched = false;
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
}

function beside(at, size, room, before) {
  const wanted = before || at + GAP + size > room - EDGE ? at - GAP - size : at + GAP;
  return `${Math.max(EDGE, Math.min(wanted, room - EDGE - size))}px`;
}

function showTip(event, facts) {
  const lines = Object.entries(facts).map(([name, fact]) => [element("dt", name), element("dd", fact)]);
  tip.replaceChildren(...lines.flat());
  tip.hidden = false;
  touched = event.pointerType === "touch";
  const { clientWidth, clientHeight } = document.documentElement;
  tip.style.left = beside(event.clientX, tip.offsetWidth, clientWidth, false);
  tip.style.top = beside(event.clientY, tip.offsetHeight, clientHeight, touched);
}

addEventListener("pointerdown", hideTip, { capture: true });
addEventListener("scroll", () => touched && hideTip(), { capture: true, passive: true });
window.tellAt = (event, facts) => (facts ? showTip(event, facts) : hideTip());
