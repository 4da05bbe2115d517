"use strict";
// Pictures: the network of a run at one instant, and what its hosts received over time.

const KINDS = ["data", "repair symbol", "sent again", "trimmed header", "pull", "acknowledgement", "marked"];
const COLOURS = ["data", "repair", "again", "trimmed", "pull", "control", "marked"];

const palette = {};
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "soft", "faint", "panel", "good", "bad", "queue", "accent", ...COLOURS];
  for (const name of names) palette[name] = style.getPropertyValue(`--${name}`).trim();
}

// Where nodes stand, in parts of the canvas.
function layOut(network) {
  const { nodes } = network;
  if (network.line) {
    const at = { host0: 0.06, site0: 0.2, relay: 0.5, site1: 0.8, host1: 0.94 };
    return { places: nodes.map(({ name }) => ({ x: at[name], y: 0.5 })), shown: nodes.map(() => true) };
  }
  const degree = new Array(nodes.length).fill(0);
  for (const [from] of network.ports) degree[from]++;
  const shown = nodes.map((node, i) => node.tier < 3 || degree[i] > 1);
  const topped = nodes.some((node, i) => node.tier === 3 && shown[i]);
  const rows = topped ? [0, 0.43, 0.24, 0.07] : [0, 0.36, 0.09, 0];
  const places = new Array(nodes.length);
  const tiers = [0, 1, 2, 3].map((tier) => nodes.map((_, i) => i).filter((i) => nodes[i].tier === tier && shown[i]));
  for (const tier of [1, 2, 3]) {
    tiers[tier].forEach((i, at) => {
      places[i] = { x: (at + 0.5) / tiers[tier].length, y: rows[tier] };
    });
  }
  const racks = tiers[1];
  const top = rows[1] + 0.15;
  racks.forEach((tor, rack) => {
    const hosts = tiers[0].filter((i) => nodes[i].group === rack);
    const width = 0.9 / racks.length;
    const grid = Math.max(1, Math.min(hosts.length, Math.round(Math.sqrt(hosts.length * width * 3.2))));
    const columns = hosts.length <= 5 ? hosts.length : grid;
    const lines = Math.ceil(hosts.length / columns);
    hosts.forEach((i, at) => {
      const column = at % columns;
      const line = Math.floor(at / columns);
      const inLine = Math.min(columns, hosts.length - line * columns);
      const x = places[tor].x + ((column + 0.5) / inLine - 0.5) * width;
      places[i] = { x, y: lines === 1 ? top + 0.25 : top + (line / (lines - 1)) * (0.93 - top) };
    });
  });
  return { places, shown };
}

function sizeCanvas(canvas) {
  const scale = Math.min(window.devicePixelRatio || 1, 2);
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

// What a panel remembers from picture to picture: counts of ports, and flashes of trims and drops.
class NetworkPicture {
  constructor(canvas, network, settings, protectedByPair) {
    Object.assign(this, { canvas, network, settings, protectedByPair }, layOut(network));
    this.counts = null;
    this.recovered = 0;
    this.flashes = [];
    const named = (name) => network.nodes.findIndex((node) => node.name === name);
    this.slow = new Set(network.slow.map(([a, b]) => `${named(a)}-${named(b)}`));
    this.small = network.nodes.length > 60;
  }

  at(node, width, height) {
    const place = this.places[node];
    return [place.x * width, place.y * height];
  }

  nodeAt(x, y) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    let best = -1;
    let least = 18 * 18;
    this.places.forEach((place, node) => {
      if (!place) return;
      const distance = (place.x * width - x) ** 2 + (place.y * height - y) ** 2;
      if (distance < least) [best, least] = [node, distance];
    });
    return best;
  }

  draw(view, now, selected, moment) {
    const { pen, width, height } = sizeCanvas(this.canvas);
    const links = this.network.ports;
    const spot = (node) => this.at(node, width, height);
    this.drawLinks(pen, view, spot);
    this.drawQueues(pen, view, spot);
    this.drawPackets(pen, view, spot);
    this.drawNodes(pen, view, spot, this.failedNodes(now), selected);
    this.drawFlashes(pen, view, spot, moment);
    return links.length;
  }

  // The names of the nodes that have failed by now. Hosts of a failed switch are cut off, but well.
  failedNodes(now) {
    const failed = new Set();
    for (const { at, node, up } of this.settings.events) {
      // They are in the order of time, which is rounded to nanoseconds.
      if (at > now * 1e6 + 1e-3) break;
      if (up) failed.delete(node);
      else failed.add(node);
    }
    return failed;
  }

  drawLinks(pen, view, spot) {
    this.network.ports.forEach(([from, to], port) => {
      if (from > to || !this.shown[from] || !this.shown[to]) return;
      const up = view.ports[5 * port] > 0;
      const isSlow = this.slow.has(`${from}-${to}`);
      pen.strokeStyle = up ? palette.faint : palette.bad;
      pen.setLineDash(up ? (isSlow ? [2, 3] : []) : [4, 4]);
      pen.lineWidth = this.small ? 0.7 : 1.2;
      pen.beginPath();
      pen.moveTo(...spot(from));
      pen.lineTo(...spot(to));
      pen.stroke();
    });
    pen.setLineDash([]);
  }

  // A queue grows from its port towards the other end of the link.
  drawQueues(pen, view, spot) {
    const hosts = this.network.hosts;
    this.network.ports.forEach(([from, to], port) => {
      const [data, control] = [view.ports[5 * port + 1], view.ports[5 * port + 2]];
      if (from < hosts || !this.shown[to] || data + control === 0) return;
      const [x, y] = spot(from);
      const [toX, toY] = spot(to);
      const length = Math.hypot(toX - x, toY - y) || 1;
      const [dx, dy] = [(toX - x) / length, (toY - y) / length];
      const room = Math.min(length * 0.55, 70);
      const bar = (start, amount, colour, thick) => {
        const end = start + room * amount;
        pen.strokeStyle = colour;
        pen.lineWidth = thick;
        pen.beginPath();
        pen.moveTo(x + dx * start, y + dy * start);
        pen.lineTo(x + dx * end, y + dy * end);
        pen.stroke();
        return end;
      };
      pen.lineCap = "butt";
      const thick = this.small ? 5 : 7;
      const end = bar(7, Math.min(1, data / this.settings.buffer), palette.queue, thick);
      if (control > 0) bar(end, Math.min(0.5, control / 200), palette.trimmed, thick);
    });
  }

  drawPackets(pen, view, spot) {
    const list = view.packets;
    const { line } = this.network;
    const size = this.small ? 2.1 : line ? 1.9 : 3;
    for (let i = 0; i < list.length; i += 4) {
      const [from, to] = this.network.ports[list[i]];
      if (!this.shown[from] || !this.shown[to]) continue;
      const share = list[i + 1];
      const kind = list[i + 2];
      const [x, y] = spot(from);
      const [toX, toY] = spot(to);
      const length = Math.hypot(toX - x, toY - y) || 1;
      // Traffic keeps to the right.
      const aside = this.small ? 1.6 : line ? (kind === 1 ? 13 : 6) : 3;
      const px = x + (toX - x) * share - ((toY - y) / length) * aside;
      const py = y + (toY - y) * share + ((toX - x) / length) * aside;
      pen.fillStyle = palette[COLOURS[kind]];
      pen.beginPath();
      if (kind === 0 || kind === 6) {
        pen.arc(px, py, size, 0, 7);
      } else if (kind === 1) {
        pen.moveTo(px, py - size * 1.4);
        pen.lineTo(px + size * 1.4, py);
        pen.lineTo(px, py + size * 1.4);
        pen.lineTo(px - size * 1.4, py);
      } else if (kind === 2) {
        pen.moveTo(px, py - size * 1.5);
        pen.lineTo(px + size * 1.4, py + size);
        pen.lineTo(px - size * 1.4, py + size);
      } else {
        pen.rect(px - size * 0.6, py - size * 0.6, size * 1.2, size * 1.2);
      }
      pen.fill();
    }
  }

  // Hosts in one row do not touch.
  smallRadius() {
    const row = this.places.filter((place, i) => place && this.network.nodes[i].tier === 0 && place.y === this.places[0].y).length;
    return Math.max(1.8, Math.min(3.6, (this.canvas.clientWidth * 0.9) / row / 2.5));
  }

  // What each host has of what it is to send or receive.
  progress(view) {
    const part = new Map();
    const { size } = this.settings;
    for (let i = 0; i < view.requests.length; i += 3) {
      const [host, peer, state] = view.requests.subarray(i, i + 3);
      const note = (node, expected, receives) => {
        const entry = part.get(node) || { expected: 0, receives, states: [] };
        entry.expected += expected;
        entry.states.push(state);
        part.set(node, entry);
      };
      note(host, size, this.settings.preset === "fetch");
      if (this.settings.preset !== "fetch") note(peer, size, true);
    }
    return part;
  }

  drawNodes(pen, view, spot, failed, selected) {
    const { nodes, hosts } = this.network;
    const progress = this.progress(view);
    const radius = this.small ? this.smallRadius() : 7;
    pen.textAlign = "center";
    pen.font = "11px system-ui, sans-serif";
    nodes.forEach((node, i) => {
      if (!this.shown[i]) return;
      const [x, y] = spot(i);
      const isHost = i < hosts;
      pen.lineWidth = 1.2;
      pen.strokeStyle = failed.has(node.name) ? palette.bad : palette.ink;
      pen.fillStyle = palette.panel;
      pen.beginPath();
      if (isHost) pen.arc(x, y, radius, 0, 7);
      else pen.rect(x - 11, y - 6, 22, 12);
      pen.fill();
      if (isHost) this.drawProgress(pen, view, i, x, y, radius, progress.get(i));
      pen.beginPath();
      if (isHost) pen.arc(x, y, radius, 0, 7);
      else pen.rect(x - 11, y - 6, 22, 12);
      pen.stroke();
      if (failed.has(node.name)) {
        pen.lineWidth = 2.5;
        pen.beginPath();
        pen.moveTo(x - 7, y - 7);
        pen.lineTo(x + 7, y + 7);
        pen.moveTo(x + 7, y - 7);
        pen.lineTo(x - 7, y + 7);
        pen.stroke();
      }
      if (i === selected) {
        pen.strokeStyle = palette.accent;
        pen.lineWidth = 2;
        pen.beginPath();
        pen.arc(x, y, isHost ? radius + 4 : 15, 0, 7);
        pen.stroke();
      }
      if (!isHost && !this.small) {
        pen.fillStyle = palette.soft;
        if (this.network.line) pen.fillText(this.nameInLine(node), x, y + 32);
        else pen.fillText(node.name, x, y - 11 < 8 ? y + 20 : y - 11);
      } else if (isHost && nodes.length <= 24) {
        pen.fillStyle = palette.soft;
        pen.fillText(node.name, x, this.network.line ? y + 32 : y + radius + 13);
      }
    });
  }

  nameInLine({ name, tier }) {
    if (tier !== 1) return name;
    return this.protectedByPair ? "appliance" : "router";
  }

  drawProgress(pen, view, host, x, y, radius, entry) {
    const [sent, received] = [view.hosts[2 * host], view.hosts[2 * host + 1]];
    const expected = entry ? entry.expected : this.settings.size;
    const receives = entry ? entry.receives : received > sent;
    const part = Math.min(1, (receives ? received : sent) / (expected || 1));
    const done = entry && entry.states.every((state) => state === 1);
    const failed = entry && entry.states.some((state) => state === 2);
    if (failed || done || part > 0) {
      pen.fillStyle = failed ? palette.bad : done ? palette.good : receives ? palette.accent : palette.data;
      pen.beginPath();
      pen.moveTo(x, y);
      pen.arc(x, y, radius, -Math.PI / 2, -Math.PI / 2 + (done || failed ? 1 : part) * 2 * Math.PI);
      pen.fill();
    }
    if (entry && entry.receives) {
      pen.strokeStyle = palette.accent;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(x, y, radius + (this.small ? 2 : 2.5), 0, 7);
      pen.stroke();
    }
  }

  // A port that cut or dropped packets since the last picture flashes.
  drawFlashes(pen, view, spot, moment) {
    const ports = this.network.ports;
    const counts = new Float64Array(2 * ports.length);
    for (let port = 0; port < ports.length; port++) {
      for (const what of [0, 1]) {
        counts[2 * port + what] = view.ports[5 * port + 3 + what];
        const grew = this.counts && counts[2 * port + what] > this.counts[2 * port + what];
        if (grew) this.flashes.push({ port, what, until: moment + 350 });
      }
    }
    // The far end's appliance; the near one brings back acknowledgements.
    if (this.counts && view.recovered > this.recovered) {
      this.flashes.push({ port: ports.findIndex(([from, to]) => from === 4 && to === 1), what: 2, until: moment + 350 });
    }
    this.recovered = view.recovered;
    this.counts = counts;
    this.flashes = this.flashes.filter((flash) => flash.until > moment).slice(-200);
    for (const { port, what, until } of this.flashes) {
      const [from, to] = ports[port];
      if (!this.shown[from] || !this.shown[to]) continue;
      const [x, y] = spot(from);
      const [toX, toY] = spot(to);
      const length = Math.hypot(toX - x, toY - y) || 1;
      const [cx, cy] = [x + ((toX - x) / length) * 16, y + ((toY - y) / length) * 16];
      const age = 1 - (until - moment) / 350;
      pen.globalAlpha = Math.max(0, 1 - age);
      pen.strokeStyle = [palette.trimmed, palette.bad, palette.good][what];
      pen.lineWidth = 2;
      pen.beginPath();
      if (what !== 1) {
        pen.arc(cx, cy, 4 + 8 * age, 0, 7);
      } else {
        const reach = 4 + 4 * age;
        pen.moveTo(cx - reach, cy - reach + 10 * age);
        pen.lineTo(cx + reach, cy + reach + 10 * age);
        pen.moveTo(cx + reach, cy - reach + 10 * age);
        pen.lineTo(cx - reach, cy + reach + 10 * age);
      }
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }
}

const SMOOTHED = 9; // intervals

// Goodput and the longest queue over a window of time, with a line at now.
function drawTimeline(canvas, result, { from, to, now, most, buffer }) {
  const { pen, width, height } = sizeCanvas(canvas);
  const floor = height - 4;
  pen.strokeStyle = palette.faint;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(0, floor + 0.5);
  pen.lineTo(width, floor + 0.5);
  pen.stroke();
  if (result) {
    const { interval, received, queue } = result;
    const columns = Math.max(1, Math.floor(width));
    pen.fillStyle = palette.data;
    const tops = [];
    for (let column = 0; column < columns; column++) {
      const start = from + ((to - from) * column) / columns;
      const end = from + ((to - from) * (column + 1)) / columns;
      const first = Math.floor(start / interval);
      const last = Math.max(first + 1, Math.ceil(end / interval));
      let longest = 0;
      for (let i = first; i < last && i < queue.length; i++) longest = Math.max(longest, queue[i]);
      // A rate is a mean over several packets.
      const wide = Math.max(0, Math.ceil((SMOOTHED - (last - first)) / 2));
      let bytes = 0;
      for (let i = Math.max(0, first - wide); i < last + wide && i < received.length; i++) bytes += received[i];
      const rate = (bytes * 8) / ((last - first + 2 * wide) * interval);
      const top = Math.min(1, rate / most) * (height - 8);
      if (top > 0) pen.fillRect(column, floor - top, 1, top);
      tops.push(floor - Math.min(1, longest / buffer) * (height - 8));
    }
    pen.strokeStyle = palette.queue;
    pen.lineWidth = 1.3;
    pen.beginPath();
    tops.forEach((top, column) => (column ? pen.lineTo(column, top) : pen.moveTo(column, top)));
    pen.stroke();
  }
  const x = ((now - from) / (to - from)) * width;
  pen.strokeStyle = palette.ink;
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(x, 0);
  pen.lineTo(x, height);
  pen.stroke();
}
