// The image: drawn, chosen or uploaded. The server gives it the model's size.

import { $, complain, known } from "./common.js";

let asked = 0;
let take = null; // what becomes of an image's pixels
let forget = null; // and what if there is none any more

async function prepare(address, options = {}) {
  const mine = ++asked;
  const answer = await fetch(address, options)
    .then((reply) => reply.json())
    .catch(() => ({ error: "the server does not answer; is it still running?" }));
  if (mine !== asked) return;
  if (answer.error) {
    refuse(answer.error);
    return;
  }
  complain();
  showImage(answer);
  take(answer.pixels);
}

// What is shown belongs to the image that was given last, so an earlier one goes.
function refuse(message) {
  clear();
  complain(message);
}

function clear() {
  asked++;
  complain();
  $("preview").width = known.width; // wipes it
  $("note").textContent = "nothing yet";
  forget();
}

function showImage({ pixels, note }) {
  const bytes = Uint8Array.from(atob(pixels), (character) => character.charCodeAt(0));
  const canvas = $("preview");
  canvas.width = known.width;
  canvas.height = known.height;
  const image = new ImageData(known.width, known.height);
  for (let k = 0; k < known.width * known.height; k++) {
    for (let c = 0; c < 3; c++) image.data[4 * k + c] = bytes[known.channels === 3 ? 3 * k + c : k];
    image.data[4 * k + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  $("note").textContent = note;
}

function setUpPad() {
  const pad = $("pad");
  const pen = pad.getContext("2d");
  let last = null;

  function wipe() {
    pen.fillStyle = "#000";
    pen.fillRect(0, 0, pad.width, pad.height);
  }

  function at(event) {
    const box = pad.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height].map((part) => part * pad.width);
  }

  function lineTo(point) {
    pen.beginPath();
    pen.moveTo(...last);
    pen.lineTo(...point);
    pen.stroke();
    last = point;
  }

  function lift(event) {
    if (!last || !event.isPrimary) return;
    last = null;
    pad.toBlob((blob) => prepare("drawing", { method: "POST", body: blob }));
  }

  Object.assign(pen, { lineWidth: known.pen * pad.width, lineCap: "round", lineJoin: "round", strokeStyle: "#fff" });
  wipe();
  pad.addEventListener("pointerdown", (event) => {
    if (event.button || !event.isPrimary) return; // a second finger does not draw
    pad.setPointerCapture(event.pointerId);
    last = at(event);
    lineTo([last[0] + 0.1, last[1]]); // a dot: a line of no length is not drawn
  });
  pad.addEventListener("pointermove", (event) => {
    if (last && event.isPrimary) for (const move of event.getCoalescedEvents?.() ?? [event]) lineTo(at(move));
  });
  pad.addEventListener("pointerup", lift);
  pad.addEventListener("pointercancel", lift);
  $("clear").addEventListener("click", () => {
    wipe();
    clear();
  });
}

export function setUpSources(taking, forgetting) {
  [take, forget] = [taking, forgetting];
  const choose = (source) => ["draw", "test", "upload"].forEach((id) => $(id) && ($(id).hidden = id !== source));
  for (const radio of document.getElementsByName("source")) {
    radio.addEventListener("change", () => choose(radio.value));
  }
  choose(document.querySelector("[name=source]:checked").value); // a reloaded page may keep an earlier choice
  if ($("pad")) setUpPad();
  $("test")?.addEventListener("submit", (event) => {
    event.preventDefault();
    prepare(`test/${Number($("index").value)}`);
  });
  $("random")?.addEventListener("click", () => {
    $("index").value = Math.floor(Math.random() * known.tests);
    prepare(`test/${$("index").value}`);
  });
  $("upload").addEventListener("submit", (event) => event.preventDefault());
  $("file").addEventListener("click", () => { $("file").value = ""; }); // so that the same file may be given again
  $("file").addEventListener("change", () => {
    const file = $("file").files[0];
    if (!file) return;
    if (file.size > known.maxBytes) {
      refuse(`the file is larger than ${known.maxBytes / 2 ** 20} MB; choose a smaller one`);
    } else {
      prepare("upload", { method: "POST", body: file });
    }
  });
}
