// Charts of a workload: rows of points or bars, and lines. Scales, axes and lines are uPlot's; bars and
// points with intervals are painted over its scales.
(() => {
  const dpr = () => uPlot.pxRatio;
  const tip = page.element("div", { id: "tip", role: "status" });
  document.body.append(tip);

  page.hideTip = () => { tip.style.display = "none"; };
  page.showTip = (event, lines) => {
    tip.replaceChildren(...lines.map((line) => page.element("div", {}, line)));
    tip.style.display = "block";
    const { offsetWidth: width, offsetHeight: height } = tip;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 4))}px`;
    tip.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
  };

  /** What axes of all charts share. */
  page.axis = (more) => ({
    stroke: () => page.color("muted"),
    font: page.font(12),
    grid: { stroke: () => page.color("grid"), width: 1 },
    ticks: { show: false },
    gap: 6,
    ...more,
  });

  /** The range of a logarithmic scale; it begins at a round number, since the ticks count from there. */
  page.logRange = (_, least, most) => (most > 0 ? uPlot.rangeLog(Math.max(1, least / 1.2), most * 1.2, 10, false) : [1, 1e6]);

  /** Keeps a chart as wide as its place, and repaints it when colours change. */
  page.keep = (place, make) => {
    let chart;
    let width = 0;
    const remake = () => {
      const now = Math.floor(place.clientWidth);
      if (now < 60) return;
      width = now;
      if (chart) chart.destroy();
      chart = make(now);
      place.chart = chart;
    };
    remake();
    new ResizeObserver(() => { if (Math.floor(place.clientWidth) !== width) remake(); }).observe(place);
    page.onTheme(remake);
    return remake;
  };

  const measure = document.createElement("canvas").getContext("2d");
  const textWidth = (text, font) => {
    measure.font = font;
    return measure.measureText(text).width;
  };
  const cut = (text, font, limit) => {
    if (textWidth(text, font) <= limit) return text;
    let kept = text;
    while (kept.length > 1 && textWidth(`${kept}…`, font) > limit) kept = kept.slice(0, -1);
    return `${kept}…`;
  };

  /** Rows of something along a horizontal scale. */
  const rowsChart = (place, { names, rowHeight, scale, axis, right, paint, tell }) => {
    page.keep(place, (width) => {
      const font = page.font(13);
      const widest = Math.max(...names.map((name) => textWidth(name, font))) + 18;
      const size = Math.min(widest, width * 0.34);
      const shown = names.map((name) => cut(name, font, size - 14));
      const bottom = axis ? 26 : 0;
      const chart = new uPlot({
        width,
        height: names.length * rowHeight + bottom + 12,
        padding: [6, right(width), axis ? 0 : 6, 0],
        scales: {
          x: { time: false, ori: 1, dir: -1, range: [-0.5, names.length - 0.5] },
          y: { ori: 0, ...scale },
        },
        axes: [
          page.axis({
            scale: "x", side: 3, size, font, stroke: () => page.color("text"),
            splits: () => names.map((_, index) => index),
            values: () => shown, grid: { show: false }, gap: 10,
          }),
          page.axis({ scale: "y", side: 2, size: bottom, show: Boolean(axis), ...axis }),
        ],
        series: [{}, { scale: "y", paths: () => null, points: { show: false } }],
        legend: { show: false },
        cursor: { show: false },
        hooks: { draw: [(u) => paint(u, u.ctx)] },
      }, [names.map((_, index) => index), names.map(() => null)], place);
      chart.over.addEventListener("mousemove", (event) => {
        const box = chart.over.getBoundingClientRect();
        const row = Math.floor((event.clientY - box.top) / box.height * names.length);
        if (row >= 0 && row < names.length) page.showTip(event, [names[row], ...tell(row)]);
      });
      chart.over.addEventListener("mouseleave", page.hideTip);
      return chart;
    });
  };

  /** Where the bars of a row lie: `[y, height]` of the one with this index, in canvas pixels. */
  const slot = (u, row, index, count, thickness) => {
    const middle = u.valToPos(row, "x", true);
    const step = (thickness + 3) * dpr();
    return [middle + (index - count / 2) * step + 1.5 * dpr(), thickness * dpr()];
  };

  /** The head of an arrow whose point is at `x`: what it ends goes on beyond the chart. */
  const arrow = (ctx, x, y, way) => {
    const size = 6 * dpr();
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(x - way * size, y - size * 0.75);
    ctx.lineTo(x - way * size, y + size * 0.75);
    ctx.closePath();
    ctx.fill();
  };
  const sayBeyond = (place) => place.after(page.element("p", { class: "hint beyond" }, "An arrow: goes on beyond the chart."));

  // The most wanted first: one that has no room beside those before it is left out.
  const RATIO_TICKS = [1, 0.1, 10, 0.01, 100, 0.5, 2, 0.2, 5, 0.05, 20, 0.02, 50, 0.8, 1.25, 0.67, 1.5, 0.33, 3, 0.25, 4, 0.9, 1.1];
  const RATIO_TICK_WIDTH = 46;

  /** Each target beside the first: a point and its interval, by row. */
  page.ratioChart = (place, rows) => {
    const others = page.data.targets.length - 1;
    const all = rows.flatMap((row) => row.ratios).filter(Boolean);
    // An end far away must not press the rest together.
    const ends = all.flatMap(([ratio, low, high]) => [ratio, Math.max(low ?? ratio, ratio / 4), Math.min(high ?? ratio, ratio * 4)]);
    let low = Math.min(1, ...ends.filter((end) => end > 0)) / 1.06;
    let high = Math.max(1, ...ends) * 1.06;
    if (high / low < 1.5) [low, high] = [Math.min(low, 0.82), Math.max(high, 1.22)];
    const beyond = ([, from, to]) => from != null && to != null && [from < low, to > high];
    if (all.some((ratio) => beyond(ratio) && beyond(ratio).includes(true))) sayBeyond(place);
    rowsChart(place, {
      names: rows.map((row) => row.name),
      rowHeight: Math.max(26, others * 13 + 10),
      scale: { distr: 3, log: 10, range: [low, high] },
      axis: {
        splits: (u) => {
          const at = (tick) => (u.bbox.width / dpr()) * Math.log(tick / low) / Math.log(high / low);
          const ticks = [];
          for (const tick of RATIO_TICKS) {
            const fits = ticks.every((other) => Math.abs(at(tick) - at(other)) >= RATIO_TICK_WIDTH);
            if (tick >= low && tick <= high && fits) ticks.push(tick);
          }
          return ticks.sort((a, b) => a - b);
        },
        values: (_, splits) => splits.map((split) => `${page.format.number(split)}×`),
        filter: (_, splits) => splits,
      },
      right: () => 16,
      tell: (row) => rows[row].ratios.map((ratio, index) => {
        const name = page.data.targets[index + 1];
        if (!ratio) return `${name}: –`;
        const [value, from, to] = ratio;
        return `${name}: ${value.toFixed(2)}×${from == null || to == null ? "" : ` [${from.toFixed(2)}–${to.toFixed(2)}]`}`;
      }),
      paint: (u, ctx) => {
        const { left, top, width, height } = u.bbox;
        ctx.save();
        ctx.beginPath();
        ctx.rect(left - 2 * dpr(), top, width + 12 * dpr(), height);
        ctx.clip();
        rows.forEach((row, index) => {
          if (!row.overall) return;
          const middle = u.valToPos(index, "x", true);
          const half = height / rows.length / 2;
          ctx.fillStyle = page.color("band");
          ctx.fillRect(left - 2 * dpr(), middle - half, width + 12 * dpr(), half * 2);
        });
        const one = Math.round(u.valToPos(1, "y", true)) + 0.5;
        ctx.strokeStyle = page.target(0);
        ctx.lineWidth = 1.5 * dpr();
        ctx.beginPath();
        ctx.moveTo(one, top);
        ctx.lineTo(one, top + height);
        ctx.stroke();
        rows.forEach((row, index) => row.ratios.forEach((ratio, target) => {
          if (!ratio) return;
          const [value, from, to] = ratio;
          const [edge, thick] = slot(u, index, target, others, 10);
          const y = edge + thick / 2;
          const x = (at) => u.valToPos(at, "y", true);
          ctx.strokeStyle = ctx.fillStyle = page.target(target + 1);
          if (from != null && to != null) {
            const [before, after] = beyond(ratio);
            ctx.lineWidth = (row.overall ? 3 : 2) * dpr();
            ctx.beginPath();
            ctx.moveTo(x(Math.max(from, low)) + (before ? 3 * dpr() : 0), y);
            ctx.lineTo(x(Math.min(to, high)) - (after ? 3 * dpr() : 0), y);
            ctx.stroke();
            if (before) arrow(ctx, x(low), y, -1);
            if (after) arrow(ctx, x(high), y, 1);
          }
          ctx.beginPath();
          ctx.arc(x(value), y, (row.overall ? 5.5 : 4) * dpr(), 0, 7);
          ctx.fill();
        }));
        ctx.restore();
      },
    });
  };

  /** Text behind a bar. Where there is too little room the name before its figures is cut. */
  const endText = (u, ctx, x, y, figures, name = "") => {
    const font = ctx.font = page.font(11.5 * dpr());
    ctx.fillStyle = page.color("muted");
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    const room = ctx.canvas.width - x - 8 * dpr() - textWidth(` ${figures}`, font);
    ctx.fillText(name ? `${cut(name, font, room)} ${figures}` : figures, x + 6 * dpr(), y);
  };

  const beyond = (end, most) => end / most > 1.02;

  /** Bars from zero, each row on its own scale. `parts` of a cell: `[value, colour]` end to end. */
  const barsChart = (place, { rows, count, greatest, parts, whisker, text, tell, room = 92 }) => {
    const clipped = (row) => row.cells.some((cell) => cell && whisker?.(cell) && beyond(whisker(cell)[1], greatest(row) || 1));
    if (rows.some(clipped)) sayBeyond(place);
    rowsChart(place, {
      names: rows.map((row) => row.name),
      rowHeight: Math.max(30, count * 14 + 12),
      scale: { range: [0, 1] },
      right: (width) => (width < 420 ? room : room + 36),
      tell,
      paint: (u, ctx) => {
        const zero = u.valToPos(0, "y", true);
        const x = (share) => u.valToPos(share, "y", true);
        rows.forEach((row, index) => {
          const most = greatest(row) || 1;
          for (let target = 0; target < count; target++) {
            const [y, thick] = slot(u, index, target, count, 11);
            const cell = row.cells[target];
            if (!cell) {
              endText(u, ctx, zero, y + thick / 2, "–");
              continue;
            }
            let from = 0;
            for (const [value, color] of parts(cell, target)) {
              ctx.fillStyle = color;
              ctx.fillRect(x(from / most), y, Math.max(1, x((from + value) / most) - x(from / most)), thick);
              from += value;
            }
            let end = x(from / most);
            const ends = whisker?.(cell);
            if (ends) {
              const [low, high] = ends.map((it) => x(Math.max(0, Math.min(it / most, 1.02))));
              ctx.strokeStyle = page.color("text");
              ctx.lineWidth = dpr();
              ctx.beginPath();
              const strokes = [[low, 0.5, high, 0.5], [low, 0.22, low, 0.78]];
              if (!beyond(ends[1], most)) strokes.push([high, 0.22, high, 0.78]);
              for (const [fromX, fromY, toX, toY] of strokes) {
                ctx.moveTo(fromX, y + thick * fromY);
                ctx.lineTo(toX, y + thick * toY);
              }
              ctx.stroke();
              if (beyond(ends[1], most)) {
                ctx.fillStyle = page.color("text");
                arrow(ctx, high + 5 * dpr(), y + thick / 2, 1);
              }
              end = Math.max(end, high + (beyond(ends[1], most) ? 5 * dpr() : 0));
            }
            endText(u, ctx, end, y + thick / 2, ...[text(cell, row, target)].flat());
          }
        });
      },
    });
  };

  /** The medians of the table. */
  page.medianBars = (place, rows) => {
    const most = (row) => {
      const cells = row.cells.filter(Boolean);
      const value = Math.max(...cells.map((cell) => cell.value));
      const high = Math.max(...cells.map((cell) => cell.high ?? cell.value));
      return Math.min(high, value * 1.5);
    };
    barsChart(place, {
      rows, count: page.data.targets.length, greatest: most,
      parts: (cell, target) => [[Math.max(0, cell.value), page.target(target)]],
      whisker: (cell) => (cell.low == null || cell.high == null || cell.interval === "[?]" ? null : [cell.low, cell.high]),
      text: (cell, row) => `${cell.text} ${row.unit}`,
      tell: (row) => rows[row].cells.map((cell, target) =>
        `${page.data.targets[target]}: ${cell ? `${cell.text} ${rows[row].unit} ${cell.interval}` : "–"}`),
    });
  };

  /** Time until return and until durable. */
  page.durableBars = (place, rows) => barsChart(place, {
    rows, count: page.data.targets.length,
    greatest: (row) => Math.max(...row.cells.filter(Boolean).flat()), room: 124,
    parts: ([returned, durable], target) => {
      const color = page.target(target);
      return [[returned, color], [Math.max(0, durable - returned), `${color}66`]];
    },
    // Where both read the same, what the table has: the time until durable.
    text: ([returned, durable]) => (durable > returned * 1.005
      ? `${page.format.seconds(returned)} → ${page.format.seconds(durable)}` : page.format.seconds(durable)),
    tell: (row) => rows[row].cells.map((cell, target) => `${page.data.targets[target]}: ${cell
      ? `returned ${page.format.seconds(cell[0])}, durable ${page.format.seconds(cell[1])}` : "–"}`),
  });

  /** Titles and colours of groups of processor time; those that no list has come last. */
  page.group = (name) => {
    const index = page.data.groups.findIndex(([known]) => known === name);
    return index < 0 ? { order: 99, title: name, color: page.color("g10") }
      : { order: index, title: page.data.groups[index][1], color: page.color(`g${index}`) };
  };

  /** Processor time by group. */
  page.cpuBars = (place, rows) => {
    const sum = (cell) => Object.values(cell).reduce((total, value) => total + value, 0);
    const ordered = (cell) => Object.entries(cell).sort(([one], [other]) => page.group(one).order - page.group(other).order);
    const names = [...new Set(rows.flatMap((row) => row.cells.filter(Boolean).flatMap(Object.keys)))];
    names.sort((one, other) => page.group(one).order - page.group(other).order);
    barsChart(place, {
      rows, count: page.data.targets.length,
      greatest: (row) => Math.max(...row.cells.filter(Boolean).map(sum)),
      parts: (cell) => ordered(cell).map(([name, value]) => [value, page.group(name).color]),
      text: (cell, _, target) => [page.format.seconds(sum(cell)), page.data.targets[target]],
      tell: (row) => rows[row].cells.map((cell, target) => `${page.data.targets[target]}: ${cell
        ? ordered(cell).map(([name, value]) => `${page.group(name).title} ${page.format.seconds(value)}`).join(", ") : "–"}`),
    });
    const item = (name) => {
      const order = page.group(name).order;
      return page.element("li", {}, page.element("span", { class: "swatch", style: `background:var(--g${Math.min(order, 10)})` }), page.group(name).title);
    };
    place.after(page.element("ul", { class: "legend" }, ...names.map(item)));
  };

  /** A list to choose from, before the chart; `draw` is called with the chosen index. */
  const chosen = (place, label, names, draw) => {
    const select = page.element("select", { "aria-label": label },
      ...names.map((name, index) => page.element("option", { value: index }, name)));
    let current = 0;
    const remake = page.keep(place, (width) => draw(current, width));
    select.addEventListener("change", () => { current = Number(select.value); remake(); });
    if (names.length > 1) place.before(page.element("p", { class: "choice" }, page.element("label", {}, `${label} `, select)));
  };

  const lines = (place, width, { data, series, x, y, scales, tell }) => {
    const chart = new uPlot({
      width,
      height: Math.round(Math.min(300, Math.max(220, width * 0.5))),
      padding: [10, 14, 0, 0],
      scales,
      axes: [page.axis({ size: 30, space: 44, ...x }), page.axis({ size: 64, space: 34, ...y })],
      series: [{}, ...series],
      legend: { show: false },
      cursor: { drag: { x: true, y: false }, points: { show: false } },
      hooks: {
        setCursor: [(u) => {
          const index = u.cursor.idx;
          if (index == null || !u.cursor.event) page.hideTip();
          else page.showTip(u.cursor.event, tell(u, index));
        }],
      },
    }, data, place);
    chart.over.addEventListener("mouseleave", page.hideTip);
    return chart;
  };

  /** Each trial sample by sample; or a point for each trial. */
  page.sampleLines = (place, all) => chosen(place, "Phase", all.map((it) => it.phase), (index, width) => {
    const chosen = all[index];
    const data = chosen.lines.map((line) => page.numbers(line.values));
    const longest = Math.max(...data.map((line) => line.length));
    const form = chosen.unit === "ms" ? (value) => page.format.ns(value * 1e6) : (value) => `${page.format.number(value)} ${chosen.unit}`;
    const single = chosen.by === "trial";
    return lines(place, width, {
      data: [Array.from({ length: longest }, (_, at) => at * chosen.group + 1), ...data.map((line) => [...line, ...Array(longest - line.length).fill(null)])],
      series: chosen.lines.map((line) => ({
        stroke: () => page.target(line.target), width: 1.5,
        ...(single ? { paths: () => null } : {}),
        points: { show: single || longest <= 40, size: single ? 8 : 5, fill: () => page.target(line.target) },
      })),
      scales: { x: { time: false, range: (_, least, most) => (least === most ? [least - 1, most + 1] : single ? [least - 0.5, most + 0.5] : [least, most]) }, y: { range: (_, __, most) => [0, (most || 1) * 1.08] } },
      x: { values: (_, splits) => splits.map((split) => (Number.isInteger(split) ? `${split}` : "")), ...titled(chosen.by) },
      y: { values: (_, splits) => splits.map(page.format.short(form)), size: 76 },
      tell: (u, at) => [`${chosen.by} ${u.data[0][at]}`,
        ...page.data.targets.map((name, target) => {
          const own = chosen.lines.flatMap((line, number) => (line.target === target ? [u.data[number + 1][at]] : [])).filter((value) => value != null);
          return `${name}: ${own.length ? own.map(form).join(", ") : "–"}`;
        })],
    });
  });

  /** The title of an axis. */
  const titled = (label) => ({ label, labelSize: 20, labelGap: 0, labelFont: page.font(12) });

  const NINES = new Map([[1, "0 %"], [2, "50 %"], [10, "90 %"], [100, "99 %"], [1e3, "99.9 %"], [1e4, "99.99 %"], [1e5, "99.999 %"], [1e6, "99.9999 %"], [1e7, "99.99999 %"]]);

  /** Latency by percentile. */
  page.latencyLines = (place, all) => {
    const kinds = [...new Set(all.map((curve) => `${curve.phase}, ${curve.operation}`))];
    chosen(place, "Phase and operation", kinds, (index, width) => {
      const own = all.filter((curve) => `${curve.phase}, ${curve.operation}` === kinds[index]);
      const joined = uPlot.join(own.map((curve) => {
        const x = page.numbers(curve.x);
        const y = page.numbers(curve.y);
        // One value for each place, ascending, as uPlot wants it.
        const kept = x.map((_, at) => at).filter((at) => at + 1 === x.length || x[at] < x[at + 1]);
        return [kept.map((at) => x[at]), kept.map((at) => Math.max(1, y[at]))];
      }));
      const most = joined[0][joined[0].length - 1];
      const near = (curve, at, u) => {
        const line = u.data[own.indexOf(curve) + 1];
        for (let back = at; back >= 0; back--) if (line[back] != null) return line[back];
        return null;
      };
      return lines(place, width, {
        data: joined,
        series: own.map((curve) => ({ stroke: () => page.target(curve.target), width: 2, spanGaps: true, points: { show: false } })),
        scales: {
          x: { time: false, distr: 3, log: 10, range: (_, least, greatest) => [Math.max(1, least), Math.max(greatest, 10)] },
          y: { distr: 3, log: 10, range: page.logRange },
        },
        x: {
          splits: (u) => [...NINES.keys()].filter((nine) => nine >= u.scales.x.min * 0.99 && nine <= u.scales.x.max * 1.01),
          values: (u, splits) => splits.map((split) => NINES.get(split)),
          filter: (u, splits) => splits.map((split) => {
            const room = u.bbox.width / dpr() / Math.log10(u.scales.x.max / u.scales.x.min);
            return split === 2 && room < 110 ? null : room < 56 && Math.log10(split) % 2 === 1 && split !== most ? null : split;
          }),
        },
        y: { values: (_, splits) => splits.map((split) => (split == null ? "" : page.format.short(page.format.ns)(split))), size: 60 },
        tell: (u, at) => [`${(100 * (1 - 1 / u.data[0][at])).toPrecision(7).replace(/\.?0+$/, "")} % took no longer than`,
          ...own.map((curve) => {
            const value = near(curve, at, u);
            return `${page.data.targets[curve.target]}: ${value == null ? "–" : page.format.ns(value)}`;
          })],
      });
    });
  };
})();
