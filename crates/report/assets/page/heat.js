// Heat maps on canvas: what falls on each pixel is summed, then coloured. The only painting of points
// that stays fast with very many of them.
(() => {
  const buffer = document.createElement("canvas");

  /** Index of the first cell at or after `column`. */
  const firstAt = (cells, column) => {
    let low = 0;
    let high = cells.count;
    while (low < high) {
      const middle = low + high >> 1;
      if (cells.column[middle] < column) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  /** Bytes of the place that a heat map shows. */
  page.heatBytes = (heat) => heat.rows * heat.row_bytes;

  /** The part of the device that requests went to, where it is much less than the whole; else null. */
  page.usedBytes = (heat, cells) => {
    let [low, high] = [heat.rows, 0];
    for (const row of cells.row) [low, high] = [Math.min(low, row), Math.max(high, row + 1)];
    const margin = (high - low) * 0.04 + 1;
    const part = [Math.max(0, low - margin), Math.min(heat.rows, high + margin)];
    return low < high && part[1] - part[0] < heat.rows * 0.75 ? part.map((row) => row * heat.row_bytes) : null;
  };

  /**
   * Paints `cells` into a rectangle of a canvas.
   * view: time and offset at the edges; shows(kind, process); fade(time) from 0 to 1, if any.
   */
  page.paintHeat = (ctx, box, heat, cells, { from, to, low, high, shows, fade, least = 2 }) => {
    const width = Math.max(1, Math.round(box.width));
    const height = Math.max(1, Math.round(box.height));
    const sum = new Float32Array(width * height);
    const red = new Float32Array(width * height);
    const green = new Float32Array(width * height);
    const blue = new Float32Array(width * height);
    const colors = [0, 1, 2, 3, 4, 5, 6].map((kind) => page.rgb(`c${kind}`));
    const perSecond = width / (to - from);
    const perByte = height / (high - low);
    const first = firstAt(cells, Math.floor(from / heat.column_s));
    const tall = Math.max(least, Math.ceil(heat.row_bytes * perByte));
    const wide = Math.max(least, Math.ceil(heat.column_s * perSecond));
    for (let index = first; index < cells.count; index++) {
      const time = cells.column[index] * heat.column_s;
      if (time > to) break;
      const kind = cells.kind[index];
      if (!shows(kind, cells.process[index])) continue;
      const weight = (1 + Math.log2(cells.requests[index] || 1)) * (fade ? fade(time) : 1);
      if (weight <= 0) continue;
      const color = colors[kind];
      const left = Math.floor((time - from) * perSecond);
      const bottom = height - Math.floor((cells.row[index] * heat.row_bytes - low) * perByte);
      for (let y = Math.max(0, bottom - tall); y < Math.min(height, bottom); y++) {
        for (let x = Math.max(0, left); x < Math.min(width, left + wide); x++) {
          const at = y * width + x;
          sum[at] += weight;
          red[at] += weight * color[0];
          green[at] += weight * color[1];
          blue[at] += weight * color[2];
        }
      }
    }
    const image = new ImageData(width, height);
    const pixels = image.data;
    for (let at = 0; at < sum.length; at++) {
      const weight = sum[at];
      if (weight === 0) continue;
      pixels[at * 4] = red[at] / weight;
      pixels[at * 4 + 1] = green[at] / weight;
      pixels[at * 4 + 2] = blue[at] / weight;
      const strong = 255 * Math.min(1, 0.5 + 0.1 * weight);
      pixels[at * 4 + 3] = fade ? strong * Math.min(1, weight) : strong;
    }
    buffer.width = width;
    buffer.height = height;
    buffer.getContext("2d").putImageData(image, 0, 0);
    ctx.drawImage(buffer, Math.round(box.left), Math.round(box.top));
  };

  /** What the cells at a time and an offset hold, in words. */
  page.tellHeat = (heat, cells, time, offset, shows, titles) => {
    const column = Math.floor(time / heat.column_s);
    const row = Math.floor(offset / heat.row_bytes);
    const found = [];
    for (let index = firstAt(cells, column); index < cells.count && cells.column[index] === column; index++) {
      const kind = cells.kind[index];
      if (Math.abs(cells.row[index] - row) > 1 || !shows(kind, cells.process[index])) continue;
      const who = heat.processes[cells.process[index]] ?? "?";
      const count = page.format.whole(cells.requests[index]);
      found.push(`${who}: ${titles[kind]}, ${count} × ${page.format.bytes(cells.bytes[index] / Math.max(1, cells.requests[index]))}`);
    }
    return found.slice(0, 3);
  };
})();
