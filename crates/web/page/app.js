"use strict";
// The page: what the visitor sets, what is played, and what came of it.

const $ = (id) => document.getElementById(id);
const NAMES = { scdp: "SCDP", ndp: "NDP", "tcp-newreno": "TCP NewReno", dctcp: "DCTCP", lttp: "LTTP",
  "tcp-reno": "TCP Reno", "tcp-cubic": "TCP CUBIC", "tcp-bbr": "TCP BBR",
  "maelstrom-reno": "Reno behind Maelstrom", "maelstrom-cubic": "CUBIC behind Maelstrom", "maelstrom-bbr": "BBR behind Maelstrom",
  "maelstrom-paper": "CUBIC behind Maelstrom, the paper's code" };
const STORIES = {
  incast: ["Incast", "Many servers answer one client at the same moment, through one port that holds a few packets. Watch the queue at the client's switch and what becomes of the packets that do not fit: of a trimmed one the header arrives, and the receiver asks for more at once; after whole windows of dropped ones TCP waits for a timer of 200 ms, again and again."],
  fetch: ["Fetch from three", "One client fetches an object that three servers hold; the link of one of them (dotted) is slow. SCDP takes symbols from all three, and any symbol will do: the slow one gives what it can. The others fetch a third from each, and wait for the slowest. Kill a replica and see who still finishes."],
  replicate: ["Replicate to three", "One client stores an object on three servers. SCDP multicasts each symbol once, and switches copy it. The others send three copies over the client's one link."],
  outcast: ["Outcast", "Two senders near a rack and many far ones share the one link into it. Compare the near and far columns of the results: with TCP NewReno and full queues the two near flows, whose packets come over another port of that switch, take about three times as long as the far ones."],
  outage: ["Outage", "The only path is down from 20 to 40 ms. TCP loses a window and waits for its timer of 200 ms though the path is long back. LTTP, a fountain code paced by TFRC, only slows down, and any symbols that arrive will do. SCDP, whose least timeout is 2 ms, loses little more than the outage itself."],
  burst: ["Maelstrom's burst", "One transfer over a long link, 50 ms each way. In the middle of TCP's slow start the relay is down for 2 ms, and some 16 packets in a row are lost. TCP alone sends them again and slows down; its window then grows slowly, for a round trip takes 100 ms. Behind a pair of Maelstrom's appliances repairs (diamonds) travel beside the packets, and the far appliance makes the lost ones from them within milliseconds. The receiver has told of the gap by then, so TCP sends them again for nothing; but it learns that they had come, takes its slowing down back, and goes on nearly as if nothing had been lost."],
};
const LOG_SIZES = [1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000, 200000, 256000, 500000, 1000000, 2000000, 4000000, 8000000, 16000000];
const RATES = [10, 15, 25, 50, 100, 200, 400, 1000, 2500, 10000, 25000, 40000, 100000];
const DELAYS = [0.1, 0.5, 1, 2, 5, 10, 25, 50, 100, 500, 1000, 2000, 5000, 10000, 15000, 25000, 50000, 75000, 100000];
const LOSSES = [0, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20];
const SETTINGS = [
  { key: "senders", label: () => (["fetch", "replicate"].includes(state.settings.preset) ? "Replicas" : state.settings.preset === "outcast" ? "Far senders" : "Senders"), show: String },
  { key: "size", label: () => (isLine() ? "Size" : "Size of each"), list: LOG_SIZES, show: (v) => (v < 1e6 ? `${v / 1e3} KB` : `${v / 1e6} MB`) },
  { key: "buffer", label: () => (isLine() ? "Link queue" : "Port buffer"), list: [2, 4, 8, 12, 16, 20, 32, 48, 64, 100, 200, 400, 1000], show: (v) => `${v} pkt` },
  { key: "rate", label: () => "Link rate", list: RATES, show: (v) => (v < 1000 ? `${v} Mbit/s` : `${v / 1000} Gbit/s`) },
  { key: "delay", label: () => "Link delay", list: DELAYS, show: (v) => (v < 1000 ? `${v} µs` : `${v / 1000} ms`) },
  { key: "loss", label: () => "Link loss", list: LOSSES, show: (v) => `${v} %` },
  { key: "slow", label: () => "Slow link", list: [1, 2, 5, 10, 20, 30, 50, 75, 100], show: (v) => (v === 100 ? "none" : `${v} %`) },
];
const REAL_SECONDS = 10; // a window of time is played in so many seconds
const SHORTEST_WINDOW = 50e-6;
const SCRUB = 3; // the slider of time has most of its room for the beginning
const MEASURED_A_TURN = 6_000;

const state = {
  settings: null, opened: null, network: null, runs: [], now: 0, playing: false, window: 1e-3,
  selected: -1, picked: false, dirty: null, last: 0, described: false, firstPicture: 0, frames: [], tableAt: 0,
};

function isLine() { return state.settings.preset === "burst"; }

const held = new Set(); // sliders that a pointer holds: they stay where it has them

// ---- what the visitor has set, as the fragment of a link

function fragment() {
  const s = state.settings;
  const parts = [`preset=${s.preset}`, `protocols=${s.protocols.join("+")}`];
  for (const key of ["senders", "size", "buffer", "rate", "delay", "loss", "slow", "seed"]) parts.push(`${key}=${s[key]}`);
  const list = (up) => s.events.filter((e) => e.up === up).map((e) => `${e.node}@${e.at}`).join(",");
  parts.push(`fail=${list(false)}`, `repair=${list(true)}`);
  return parts.join("&");
}

function showError(message) {
  $("error").textContent = message;
  $("error").hidden = !message;
}

// Opens runs; what is refused leaves those that are there. Keeps the time if the network is only broken in mid-run.
function open(text, { keepTime = false } = {}) {
  let opened;
  try {
    opened = simulator.open(text);
  } catch (error) {
    if (error instanceof WebAssembly.RuntimeError) throw error;
    showError(error.message);
    if (state.opened) {
      // What was refused does not come back with the next change.
      state.settings = state.opened;
      showSettings();
      showEvents();
    }
    return false;
  }
  showError("");
  const reached = keepTime ? state.now : 0;
  Object.assign(state, {
    settings: opened.settings, opened: opened.settings, network: opened.network, now: reached, described: false,
  });
  state.runs = opened.runs.map((run) => ({ ...run, result: null, measured: false, at: 0 }));
  history.replaceState(null, "", `#${opened.fragment}`);
  if (!keepTime) Object.assign(state, { selected: -1, picked: false });
  buildPanels();
  showSettings();
  showNodes();
  showEvents();
  showFiles();
  showResults();
  $("announce").textContent = "";
  $("link").value = location.href;
  return true;
}

// The settings that are open stay as they are: if the new ones are refused, they are in force again.
function change(key, value) {
  state.settings = { ...state.settings, [key]: value };
  state.dirty = { keepTime: false };
}

function openStory(preset) {
  if (open(`preset=${preset}`)) firstWindow();
}

// Packets are seen to move: a window in which one takes about a sixtieth part of it for a link.
function firstWindow() {
  const { rate, delay } = state.settings;
  const link = (delay * 1e-6) + 12_000 / (rate * 1e6);
  // An outage is longer than any packet takes.
  const least = state.settings.preset === "outage" ? 30e-3 : SHORTEST_WINDOW;
  state.window = Math.max(least, link * (isLine() ? 12 : 55));
  state.playing = !matchMedia("(prefers-reduced-motion: reduce)").matches;
  showPlaying();
}

// ---- the run's length and the window of time

function longest() {
  const known = state.runs.filter((run) => run.result).map((run) => run.result.simulated);
  return Math.max(1e-5, ...known, state.now);
}

function clampWindow() {
  state.window = Math.min(Math.max(state.window, SHORTEST_WINDOW), longest() * 1.02);
}

function showTime(seconds) {
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(1)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(3)} ms`;
  return `${seconds.toFixed(4)} s`;
}

function showBytes(bytes) { return bytes < 1e6 ? `${Math.round(bytes / 1e3)} KB` : `${+(bytes / 1e6).toFixed(1)} MB`; }

function showRate(bits) {
  return bits >= 1e9 ? `${(bits / 1e9).toFixed(2)} Gbit/s` : `${(bits / 1e6).toFixed(bits < 1e7 ? 2 : 0)} Mbit/s`;
}

function showPlaying() {
  $("play").textContent = state.playing ? "Pause" : "Play";
}

// ---- the parts of the page

function element(tag, properties = {}, children = []) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function buildPanels() {
  const panels = $("panels");
  panels.replaceChildren();
  panels.classList.toggle("one", state.runs.length === 1);
  panels.classList.toggle("line", state.network.line);
  state.runs.forEach((run) => {
    run.canvas = element("canvas", { className: "network" });
    run.timeline = element("canvas", { className: "timeline" });
    run.canvas.setAttribute("role", "img");
    run.timeline.setAttribute("role", "img");
    run.status = element("span");
    const caption = element("figcaption", {}, [element("b", { textContent: NAMES[run.protocol] }), run.status]);
    panels.append(element("figure", {}, [caption, run.canvas, run.timeline]));
    run.picture = new NetworkPicture(run.canvas, state.network, state.settings, run.protocol.startsWith("maelstrom"));
    run.canvas.addEventListener("click", (event) => {
      const node = run.picture.nodeAt(event.offsetX, event.offsetY);
      if (node >= 0 && state.network.nodes[node].fails) select(node);
    });
    run.timeline.addEventListener("pointerdown", (event) => {
      const [from, to] = windowNow();
      seek(from + ((to - from) * event.offsetX) / run.timeline.clientWidth);
    });
  });
}

function select(node) {
  state.selected = node;
  state.picked = true;
  $("node").value = String(node);
}

function showNodes() {
  const options = state.network.nodes
    .map((node, i) => ({ ...node, i }))
    .filter(({ fails }) => fails)
    .filter(({ i }) => !state.runs.length || state.runs[0].picture.shown[i])
    .sort((a, b) => (a.i < state.network.hosts) - (b.i < state.network.hosts));
  $("node").replaceChildren(...options.map(({ name, i }) => element("option", { value: String(i), textContent: name })));
  if (state.selected < 0) state.selected = firstNode();
  $("node").value = String(state.selected);
}

// What to break first: where data comes from, if hosts are few, or else a switch in the middle.
function firstNode() {
  const { nodes, slow } = state.network;
  const named = (name) => nodes.findIndex((node) => node.name === name);
  if (state.settings.preset === "fetch" && slow.length) return named(slow[0][0]);
  return named(isLine() ? "relay" : "agg0");
}

function showEvents() {
  $("events").replaceChildren(...state.settings.events.map((event) => {
    const what = `${event.node} ${event.up ? "is repaired" : "fails"} at ${showTime(event.at * 1e-6)}`;
    const button = element("button", { textContent: "Undo" });
    button.setAttribute("aria-label", `Undo: ${what}`);
    button.addEventListener("click", () => {
      changeEvents(state.settings.events.filter((one) => one !== event));
    });
    return element("li", {}, [element("span", { textContent: what }), button]);
  }));
}

function breakNow(up) {
  const node = state.network.nodes[Number($("node").value)];
  changeEvents([...state.settings.events, { at: Math.round(state.now * 1e9) / 1e3, node: node.name, up }]);
}

// The relay is down for a moment: packets that reach it then are lost.
function loseBurst() {
  const at = Math.round(state.now * 1e9) / 1e3;
  changeEvents([...state.settings.events, { at, node: "relay", up: false }, { at: at + 2000, node: "relay", up: true }]);
}

function changeEvents(events) {
  change("events", events);
  state.dirty = { keepTime: true };
}

function showSettings() {
  const { settings } = state;
  for (const button of $("stories").children) button.setAttribute("aria-pressed", String(button.dataset.preset === settings.preset));
  $("story").textContent = STORIES[settings.preset][1];
  const values = ({ key, list }) => {
    if (!list) return Array.from({ length: settings.most_senders }, (_, i) => i + 1);
    const [least, most] = settings.limits[key] || [-Infinity, Infinity];
    return list.filter((v) => v >= least && v <= most);
  };
  SETTINGS.forEach((setting) => {
    const { input, output, label } = setting.parts;
    const list = values(setting);
    // A link may hold a value between two of the slider's: the nearest is shown, the value is kept.
    const nearest = list.reduce((best, v, i) => (Math.abs(v - settings[setting.key]) < Math.abs(list[best] - settings[setting.key]) ? i : best), 0);
    Object.assign(input, { min: 0, max: list.length - 1, value: nearest, disabled: list.length === 1 });
    input.setAttribute("aria-valuetext", setting.show(settings[setting.key]));
    output.textContent = setting.show(settings[setting.key]);
    label.textContent = setting.label();
    setting.choose = () => list[Number(input.value)];
    // Nothing to choose.
    input.parentElement.hidden = list.length === 1;
  });
  $("seed").value = settings.seed;
  for (const box of $("protocols").querySelectorAll("input")) {
    box.checked = settings.protocols.includes(box.value);
    box.parentElement.hidden = !settings.choices.includes(box.value);
  }
  $("burst").hidden = !isLine();
}

function buildControls() {
  for (const [preset, [title]] of Object.entries(STORIES)) {
    const button = element("button", { textContent: title });
    button.dataset.preset = preset;
    button.addEventListener("click", () => openStory(preset));
    $("stories").append(button);
  }
  for (const setting of SETTINGS) {
    const [label, input, output] = [element("span"), element("input", { type: "range" }), element("output")];
    input.id = `set-${setting.key}`;
    setting.parts = { label, input, output };
    input.addEventListener("input", () => {
      output.textContent = setting.show(setting.choose());
      change(setting.key, setting.choose());
    });
    $("settings").append(element("label", {}, [label, input, output]));
  }
  const seed = element("input", { type: "number", id: "seed", min: 0, max: 4294967295 });
  seed.addEventListener("change", () => change("seed", Math.min(4294967295, Math.max(0, Math.trunc(Number(seed.value)) || 0))));
  $("settings").append(element("label", {}, [element("span", { textContent: "Seed" }), seed, element("span")]));
  for (const [value, name] of Object.entries(NAMES)) {
    const box = element("input", { type: "checkbox", value });
    box.addEventListener("change", () => {
      const chosen = [...$("protocols").querySelectorAll("input:checked")].map((one) => one.value);
      if (chosen.length === 0) box.checked = true;
      else change("protocols", chosen);
    });
    $("protocols").append(element("label", {}, [box, ` ${name}`]));
  }
  const entries = [...KINDS.map((name, i) => [name, COLOURS[i]]), ["queue", "queue"], ["complete, brought back", "good"], ["failed, dropped, lost", "bad"]];
  for (const [name, colour] of entries) {
    const mark = element("i");
    mark.style.background = `var(--${colour})`;
    $("legend").append(element("li", {}, [mark, name]));
  }
  $("play").addEventListener("click", () => { state.playing = !state.playing; showPlaying(); describePicture(); });
  $("step").addEventListener("click", () => { state.playing = false; showPlaying(); seek(state.now + state.window / 100); });
  $("restart").addEventListener("click", () => seek(0));
  $("time").addEventListener("input", () => seek((Number($("time").value) / 1000) ** SCRUB * longest()));
  $("zoom").addEventListener("input", () => {
    const most = longest() * 1.02;
    state.window = most * (SHORTEST_WINDOW / most) ** Number($("zoom").value);
  });
  $("node").addEventListener("change", () => select(Number($("node").value)));
  $("fail").addEventListener("click", () => breakNow(false));
  $("repair").addEventListener("click", () => breakNow(true));
  $("burst").addEventListener("click", loseBurst);
  $("copy").addEventListener("click", copyLink);
  $("picture").addEventListener("toggle", () => { state.tableAt = 0; });
  addEventListener("hashchange", () => { if (open(location.hash)) firstWindow(); });
  for (const id of ["time", "zoom"]) $(id).addEventListener("pointerdown", () => held.add(id));
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => held.clear());
  addEventListener("keydown", (event) => {
    const typing = event.target.matches?.('input:not([type="range"], [type="checkbox"]), select, textarea');
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const button = { k: "play", l: "step", 0: "restart" }[event.key];
    if (button) $(button).click();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readPalette);
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    $("copy").textContent = "Copied";
  } catch {
    $("link").select();
    $("copy").textContent = "Press Ctrl+C";
  }
  setTimeout(() => { $("copy").textContent = "Copy link"; }, 2000);
}

function showFiles() {
  $("file-list").replaceChildren(...state.runs.map((run) => element("details", {}, [
    element("summary", { textContent: `${state.settings.preset}-${run.protocol}.toml` }),
    element("pre", { textContent: run.scenario }),
  ])));
}

// ---- results

const ENDINGS = { running: "running", complete: "complete", stuck: "stuck", limit: "out of time", "too-long": "broken off" };

// How a run ended, if not with all that was asked for.
function endingOf({ done, requests, ending }) {
  if (done === requests.length && ending === "complete") return "";
  return `, ${ending === "complete" ? "the rest failed" : ENDINGS[ending]}`;
}

// Near senders have the receiver of the lower number.
function nearAndFar(requests) {
  const first = Math.min(...requests.map((one) => one.peer));
  return [true, false].map((near) => {
    const times = requests.filter((one) => (one.peer === first) === near && one.end !== null).map((one) => one.end - one.start);
    return times.length ? showTime(times.reduce((sum, time) => sum + time, 0) / times.length) : "–";
  });
}

function showResults() {
  const outcast = state.settings.preset === "outcast";
  const head = ["Protocol", "Finished", "Mean", "99 %", "Last", ...(outcast ? ["Near, mean", "Far, mean"] : []), "Goodput", "Packets sent", "Again", ...(isLine() ? ["Dropped", "Lost", "Brought back"] : ["Trimmed", "Dropped", "Marked"]), "Digest"];
  const times = state.runs.map((run) => (run.measured && endingOf(run.result) === "" ? run.result.last : null));
  const best = Math.min(...times.filter((time) => time !== null));
  const rows = state.runs.map((run, i) => {
    const r = run.result;
    const cells = r === null ? [] : [
      `${r.done} of ${r.requests.length}${endingOf(r)}`,
      ...[r.mean, r.p99, r.last].map((time) => (time === null ? "–" : showTime(time))),
      ...(outcast ? nearAndFar(r.requests) : []),
      r.goodput === null ? "–" : showRate(r.goodput),
      ...[r.packets, r.again, ...(isLine() ? [r.dropped - r.lost, r.lost, r.recovered] : [r.trimmed, r.dropped, r.marked])].map((count) => count.toLocaleString("en")),
    ];
    const row = element("tr", {}, [element("th", { scope: "row", textContent: NAMES[run.protocol] })]);
    for (let at = 0; at < head.length - 2; at++) {
      row.append(element("td", { textContent: cells[at] ?? "…", className: at === 3 && times[i] === best ? "best" : "" }));
    }
    const digest = element("code", { textContent: r === null ? "…" : r.digest ?? "–" });
    row.append(element("td", {}, [digest]));
    row.dataset.run = run.protocol;
    row.dataset.ending = r ? r.ending : "running";
    return row;
  });
  const header = element("tr", {}, head.map((text) => element("th", { scope: "col", textContent: text })));
  $("results").replaceChildren(
    element("caption", { textContent: "Completion times count from each request's start to its last byte" }),
    element("thead", {}, [header]), element("tbody", {}, rows));
}

function announceResults() {
  const parts = state.runs.map((run) => {
    const { done, requests, last } = run.result;
    return `${NAMES[run.protocol]}: ${done} of ${requests.length} finished${endingOf(run.result)}${last !== null ? `, the last after ${showTime(last)}` : ""}`;
  });
  $("announce").textContent = `${parts.join(". ")}.`;
}

// Measures a part of what is left; true if there was something.
function measureSome() {
  const number = state.runs.findIndex((run) => !run.measured);
  if (number < 0) return false;
  const run = state.runs[number];
  const began = performance.now();
  do {
    run.measured = simulator.measure(number, MEASURED_A_TURN);
  } while (!run.measured && performance.now() - began < 7);
  if (run.measured) {
    run.result = simulator.result(number);
    showResults();
    if (allMeasured()) announceResults();
  }
  return true;
}

// ---- time

function allMeasured() {
  return state.runs.every((run) => run.measured);
}

function seek(time) {
  // How long the runs are is not known before.
  const wanted = Math.min(Math.max(0, time), allMeasured() ? longest() : Infinity);
  if (wanted < state.now) {
    state.runs.forEach((run, number) => { simulator.rewind(number); run.picture.counts = null; });
  }
  state.now = wanted;
}

function windowNow() {
  const length = longest() * 1.02;
  const width = Math.min(state.window, length);
  const from = Math.min(Math.max(0, state.now - width * 0.7), length - width);
  return [from, from + width];
}

function frame(moment) {
  try {
    turn(moment);
  } catch (error) {
    showError(`The simulator has stopped, which is a bug: ${error.message}. Reload the page to go on.`);
    throw error;
  }
  requestAnimationFrame(frame);
}

function turn(moment) {
  const passed = Math.min(0.1, (moment - state.last) / 1000 || 0);
  state.last = moment;
  if (state.dirty) {
    const { keepTime } = state.dirty;
    state.dirty = null;
    open(fragment(), { keepTime });
  }
  measureSome();
  const measured = allMeasured();
  if (measured) clampWindow();
  if (state.playing) {
    const next = state.now + (passed * state.window) / REAL_SECONDS;
    state.now = measured ? Math.min(next, longest()) : next;
    if (measured && state.now >= longest()) { state.playing = false; showPlaying(); describePicture(); }
  }
  const began = performance.now();
  state.runs.forEach((_, number) => simulator.play(number, state.now));
  drawAll(moment);
  state.firstPicture ||= performance.now();
  if (!state.described) describePicture();
  state.frames.push(performance.now() - began);
  if (state.frames.length > 240) state.frames.shift();
}

function drawAll(moment) {
  const [from, to] = windowNow();
  const most = state.settings.rate * 1e6 * (state.settings.preset === "replicate" ? Math.max(1, state.settings.senders) : state.settings.preset === "outcast" ? 1.2 : 1);
  const fillTable = $("picture").open && moment - state.tableAt > 500;
  const rows = [];
  state.runs.forEach((run, number) => {
    const view = simulator.look(number);
    run.picture.draw(view, state.now, state.picked ? state.selected : -1, moment);
    const counts = countView(view);
    const losses = [["trimmed", counts.trimmed], [isLine() ? "lost" : "dropped", counts.dropped], ["brought back", counts.recovered]].filter(([, count]) => count > 0);
    const told = losses.map(([what, count]) => `${count.toLocaleString("en")} ${what}`);
    const done = isLine() ? `${showBytes(counts.received)} of ${showBytes(state.settings.size)}` : `${counts.done}/${counts.requests} done`;
    const queue = `queue ${counts.queue}`;
    run.status.textContent = [done, ...(isLine() ? [...told, queue] : [queue, ...told])].join(" · ");
    run.counts = counts;
    drawTimeline(run.timeline, run.result, { from, to, now: state.now, most, buffer: state.settings.buffer });
    if (fillTable) rows.push([NAMES[run.protocol], counts]);
  });
  if (fillTable) { state.tableAt = moment; showPictureTable(rows); }
  $("clock").textContent = showTime(state.now);
  if (!held.has("time")) $("time").value = (state.now / longest()) ** (1 / SCRUB) * 1000;
  $("time").setAttribute("aria-valuetext", showTime(state.now));
  const widest = longest() * 1.02;
  if (!held.has("zoom")) $("zoom").value = Math.log(state.window / widest) / Math.log(SHORTEST_WINDOW / widest);
  $("speed").textContent = `${showTime(state.window / REAL_SECONDS)} a second`;
}

function countView(view) {
  const kinds = new Array(KINDS.length).fill(0);
  for (let i = 2; i < view.packets.length; i += 4) kinds[view.packets[i]]++;
  let [queue, trimmed, dropped, done, failed] = [0, 0, 0, 0, 0];
  for (let port = 0; port < view.ports.length; port += 5) {
    if (state.network.ports[port / 5][0] >= state.network.hosts) queue = Math.max(queue, view.ports[port + 1]);
    trimmed += view.ports[port + 3];
    dropped += view.ports[port + 4];
  }
  for (let i = 2; i < view.requests.length; i += 3) {
    if (view.requests[i] === 1) done++;
    if (view.requests[i] === 2) failed++;
  }
  // Of a long link: what the second host has, without repeats.
  const received = Math.min(view.hosts[3], state.settings.size);
  return { kinds, queue, trimmed, dropped, done, failed, received, recovered: view.recovered, requests: view.requests.length / 3 };
}

function showPictureTable(rows) {
  const head = ["At this moment", ...rows.map(([name]) => name)];
  const lines = [
    ["Requests finished", (c) => `${c.done} of ${c.requests}`], ["Requests failed", (c) => c.failed],
    ...KINDS.map((kind, i) => [`On links: ${kind}`, (c) => c.kinds[i]]),
    ["Longest queue (packets)", (c) => c.queue], ["Trimmed so far", (c) => c.trimmed], ["Dropped so far", (c) => c.dropped],
    ...(isLine() ? [["Brought back so far", (c) => c.recovered], ["Received", (c) => showBytes(c.received)]] : []),
  ];
  $("picture-table").replaceChildren(
    element("caption", { textContent: `All runs at ${showTime(state.now)}` }),
    element("thead", {}, [element("tr", {}, head.map((text) => element("th", { scope: "col", textContent: text })))]),
    element("tbody", {}, lines.map(([name, value]) => element("tr", {}, [
      element("th", { scope: "row", textContent: name }),
      ...rows.map(([, counts]) => element("td", { textContent: String(value(counts)) })),
    ]))));
}

// Words for those who do not see the picture; told when it stands still.
function describePicture() {
  state.described = true;
  for (const run of state.runs) {
    if (!run.counts) continue;
    const { kinds, queue, done, requests, dropped, recovered } = run.counts;
    const packets = kinds.reduce((sum, count) => sum + count, 0);
    const name = NAMES[run.protocol];
    run.canvas.setAttribute("aria-label", `${name} at ${showTime(state.now)}: ${packets} packets on links, longest queue ${queue}, ${done} of ${requests} requests finished${isLine() ? `, ${dropped} packets lost, ${recovered} brought back` : ""}. Details in “The picture as a table”.`);
    run.timeline.setAttribute("aria-label", `${name}: payload received, repeats too, and longest queue over time`);
  }
}

async function begin(module) {
  readPalette();
  buildControls();
  try {
    await simulator.load(module);
  } catch (error) {
    showError(`The simulator could not be started. ${error.message}`);
    return;
  }
  if (!open(location.hash)) {
    const message = $("error").textContent;
    open("");
    showError(`${message} Here is the first story instead.`);
  }
  firstWindow();
  requestAnimationFrame(frame);
}
