// Settings, and the conversation with the server: one job at a time, a new one ends the old.

import { $, complain, known, number } from "./common.js";
import { setUpSources } from "./image.js";
import { begin, reset, say, show } from "./certificate.js";

let pixels = null; // base64 of the image to certify
let socket = null;
let waiting = null; // a message for a socket that is not open yet
let job = 0;

const family = () => known.runs
  .map((run, index) => ({ ...run, index }))
  .filter((run) => run.family === $("family").value)
  .sort((a, b) => a.sigma - b.sigma);
const run = () => family()[$("sigma").value];
const n = () => known.steps[$("n").value];

function fill(select, options) {
  const before = select.value;
  select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
  if (options.some(([value]) => value === before)) select.value = before;
}

function tell(slider, text) {
  $(`${slider}-value`).textContent = text;
  $(slider).setAttribute("aria-valuetext", text);
}

function setUpSettings() {
  const showSigma = () => {
    $("sigma").max = family().length - 1;
    $("sigma").disabled = family().length === 1;
    tell("sigma", String(run().sigma));
    fill($("vote"), run().votes.map((vote) => [vote.name, vote.title]));
  };
  const showN = () => tell("n", number(n()));
  const showInShort = () => {
    const vote = $("vote").selectedOptions[0].text;
    $("chosen-settings").textContent = `${$("family").value}, ${vote}, sigma ${run().sigma}, n ${number(n())}`;
  };
  fill($("family"), [...new Set(known.runs.map((run) => run.family))].map((name) => [name, name]));
  $("sigma").value = 0;
  $("n").max = known.steps.length - 1;
  $("n").value = known.steps.indexOf(10_000);
  showSigma();
  showN();
  showInShort();
  $("settings").open = !matchMedia("(max-width: 820px)").matches; // a phone has room for the certificate instead
  $("sigma").addEventListener("input", showSigma);
  $("n").addEventListener("input", showN);
  $("family").addEventListener("change", () => {
    $("sigma").value = 0;
    showSigma();
  });
  $("settings").addEventListener("change", () => {
    showInShort();
    if (pixels) certify();
    else reset(n());
  });
  $("again").addEventListener("click", certify);
  $("stop").addEventListener("click", () => send({ type: "stop", job }));
}

function send(message) {
  if (socket?.readyState === WebSocket.OPEN) {
    socket.send(JSON.stringify(message));
    return;
  }
  waiting = message;
  if (socket?.readyState !== WebSocket.CONNECTING) connect();
}

function connect() {
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/certify`);
  socket.addEventListener("open", () => {
    socket.send(JSON.stringify(waiting));
    waiting = null;
  });
  socket.addEventListener("message", (event) => hear(JSON.parse(event.data)));
  socket.addEventListener("close", (event) => {
    if (isSampling()) {
      complain(event.reason || "the server has gone; start it again, then certify again");
      say("Interrupted.");
    }
    sampling(false);
  });
}

const isSampling = () => !$("stop").disabled;
const sampling = (is) => { $("stop").disabled = !is; };

function certify() {
  job++;
  reset(n());
  complain();
  sampling(true);
  $("again").disabled = false;
  say("Sampling.");
  send({ type: "start", job, run: run().index, vote: $("vote").value, n: n(), pixels });
}

function forget() {
  if (isSampling()) send({ type: "stop", job });
  job++; // what still comes is of an earlier job
  pixels = null;
  sampling(false);
  $("again").disabled = true;
  reset(n());
}

function hear(message) {
  if (message.job !== job) return;
  if (message.type === "started") {
    begin(message);
  } else if (message.type === "error") {
    complain(message.message);
    say("Nothing was sampled.");
    sampling(false);
  } else {
    show(message, message.type === "done");
    if (message.type === "done") sampling(false);
  }
}

setUpSettings();
setUpSources((content) => {
  pixels = content;
  certify();
}, forget);
reset(n());
