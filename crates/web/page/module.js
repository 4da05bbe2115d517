"use strict";
// The simulator's module: numbers in, numbers and texts out.

const simulator = {
  exports: null,

  async load(base64) {
    if (typeof DecompressionStream === "undefined" || typeof WebAssembly === "undefined") {
      throw new Error("This browser lacks WebAssembly or DecompressionStream: a newer one is needed.");
    }
    const packed = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const bytes = await new Response(stream).arrayBuffer();
    const { instance } = await WebAssembly.instantiate(bytes, {});
    this.exports = instance.exports;
  },

  text() {
    const { memory, wellspring_text, wellspring_text_len } = this.exports;
    const bytes = new Uint8Array(memory.buffer, wellspring_text(), wellspring_text_len());
    return new TextDecoder().decode(bytes);
  },

  // Opens runs; throws a sentence for the visitor, and the runs before stay.
  open(fragment) {
    const bytes = new TextEncoder().encode(fragment);
    const address = this.exports.wellspring_input(bytes.length);
    if (address === 0) throw new Error("The link is far too long.");
    new Uint8Array(this.exports.memory.buffer, address, bytes.length).set(bytes);
    const opened = this.exports.wellspring_open() === 1;
    if (!opened) throw new Error(this.text());
    return JSON.parse(this.text());
  },

  rewind(run) { this.exports.wellspring_rewind(run); },
  play(run, until) { return this.exports.wellspring_play(run, until) === 1; },
  now(run) { return this.exports.wellspring_now(run); },
  measure(run, events) { return this.exports.wellspring_measure(run, events) === 1; },

  result(run) {
    this.exports.wellspring_result(run);
    return JSON.parse(this.text());
  },

  digest(run) {
    this.exports.wellspring_digest(run);
    return this.text();
  },

  // What is to be seen of a run now: views into the module's memory, void after the next call.
  look(run) {
    const length = this.exports.wellspring_look(run);
    const all = new Float32Array(this.exports.memory.buffer, this.exports.wellspring_view(), length);
    const [packets, ports, hosts, requests, recovered] = all;
    const ends = [5, 4 * packets, 5 * ports, 2 * hosts, 3 * requests];
    for (let i = 1; i < ends.length; i++) ends[i] += ends[i - 1];
    const part = (i) => all.subarray(ends[i], ends[i + 1]);
    return { packets: part(0), ports: part(1), hosts: part(2), requests: part(3), recovered };
  },
};
