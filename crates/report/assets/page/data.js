"use strict";
// The data of the page, and numbers out of their compact text. Made by the modules `pack`, `heat` and
// `timeline` of the report.
const page = { data: JSON.parse(document.getElementById("data").textContent) };

(() => {
  const SIX_BITS = new Uint8Array(128);
  for (const [value, letter] of [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].entries()) {
    SIX_BITS[letter.charCodeAt(0)] = value;
  }

  /** Bytes of base64 text. */
  page.bytes = (text) => {
    const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
    const bytes = new Uint8Array(text.length / 4 * 3 - padding);
    for (let from = 0, to = 0; from < text.length; from += 4) {
      const four = SIX_BITS[text.charCodeAt(from)] << 18 | SIX_BITS[text.charCodeAt(from + 1)] << 12
        | SIX_BITS[text.charCodeAt(from + 2)] << 6 | SIX_BITS[text.charCodeAt(from + 3)];
      bytes[to++] = four >> 16;
      bytes[to++] = four >> 8;
      bytes[to++] = four;
    }
    return bytes;
  };

  /** Numbers; null where there is none. */
  page.numbers = (text) =>
    Array.from(new Float32Array(page.bytes(text).buffer), (value) => (Number.isNaN(value) ? null : value));

  /** The cells of a heat map as columns of numbers, sorted by time. */
  page.cells = (heat) => {
    const stream = page.bytes(heat.stream);
    const count = heat.cells;
    const cells = {
      count,
      column: new Uint32Array(count),
      row: new Uint32Array(count),
      kind: new Uint8Array(count),
      process: new Uint8Array(count),
      requests: new Float32Array(count),
      bytes: new Float64Array(count),
    };
    let at = 0;
    const next = () => {
      let value = 0;
      let scale = 1;
      for (;;) {
        const byte = stream[at++];
        value += (byte & 0x7f) * scale;
        if (byte < 0x80) return value;
        scale *= 128;
      }
    };
    const kinds = 7;
    let column = 0;
    let row = 0;
    for (let index = 0; index < count; index++) {
      const step = next();
      column += step;
      if (step > 0) row = 0;
      row += next();
      const who = next();
      cells.column[index] = column;
      cells.row[index] = row;
      cells.kind[index] = who % kinds;
      cells.process[index] = Math.floor(who / kinds);
      cells.requests[index] = next();
      cells.bytes[index] = next() * 512;
    }
    return cells;
  };
})();
