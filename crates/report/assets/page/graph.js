// The I/O graph of one trial: panels over one time axis, a heat map first. Zoom, switches and phases
// work on all panels at once; the values under the cursor stand in the head of each panel.
(() => {
  const READ = new Set([0, 1]);
  const DATA = new Set([0, 2]);
  const METADATA = new Set([1, 3]);
  const JOURNAL = 4;
  const SWITCHES = ["reads", "writes", "data", "metadata", "journal"];
  page.graphs = [];

  const filled = (length, value) => Array.from({ length }, value);

  class Graph {
    constructor(place, timelines) {
      this.place = place;
      this.timelines = timelines;
      this.overlay = timelines.length > 1;
      this.timeline = timelines[0];
      this.duration = Math.max(...timelines.map((it) => it.duration_s));
      this.range = [0, this.duration];
      this.on = Object.fromEntries(SWITCHES.map((name) => [name, true]));
      this.heat = this.overlay ? null : this.timeline.graph?.heat;
      this.cells = this.heat && (this.timeline.cells ??= page.cells(this.heat));
      this.processes = filled(256, () => true);
      this.part = this.heat && page.usedBytes(this.heat, this.cells);
      this.offsets = this.part ?? (this.heat && [0, page.heatBytes(this.heat)]);
      this.phase = "";
      this.bursts = this.overlay ? [] : this.timeline.graph?.bursts ?? [];
      this.panels = [];
      this.sync = uPlot.sync(`graph-${page.graphs.length}`);
      this.shows = (kind, process) => {
        const { on } = this;
        if (!this.processes[process]) return false;
        if (!(READ.has(kind) ? on.reads : on.writes)) return false;
        if (DATA.has(kind)) return on.data;
        if (METADATA.has(kind)) return on.metadata;
        return kind === JOURNAL ? on.journal : true;
      };
      page.graphs.push(this);
      this.controls();
      this.build();
      this.keys();
      for (const button of place.querySelectorAll("[data-burst]")) {
        button.addEventListener("click", () => this.showBurst(Number(button.dataset.burst)));
      }
    }

    get filtered() {
      return SWITCHES.some((name) => !this.on[name]) || this.processes.includes(false);
    }

    // --- Controls -----------------------------------------------------------
    controls() {
      const place = this.place.querySelector(".controls");
      const button = (text, label, act) => page.element("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
      const row = page.element("div", { class: "row" });
      const phases = this.overlay ? [] : this.timeline.phases;
      if (phases.length > 0) {
        this.select = page.element("select", { "aria-label": "Phase", onchange: () => this.choosePhase(this.select.value) },
          page.element("option", { value: "" }, "all phases"),
          ...phases.map((phase) => page.element("option", {}, phase.name)));
        row.append(this.select);
      }
      row.append(
        button("+", "Zoom in", () => this.scale(0.5)), button("−", "Zoom out", () => this.scale(2)),
        button("◂", "Earlier", () => this.shift(-0.25)), button("▸", "Later", () => this.shift(0.25)),
        button("All", "Show the whole trial", () => this.reset()));
      place.append(row);
      if (!this.heat) return;
      const box = (text, colors, set) => {
        const input = page.element("input", { type: "checkbox", checked: true, onchange: () => { set(input.checked); this.refilter(); } });
        return page.element("label", { class: "switch" }, input,
          ...colors.map((color) => page.element("span", { class: "swatch", style: `background:var(--${color})` })), text);
      };
      const kinds = { reads: ["c0", "c1"], writes: ["c2", "c3", "c4"], data: ["c0", "c2"], metadata: ["c1", "c3"], journal: ["c4"] };
      place.append(page.element("fieldset", { class: "switches" }, page.element("legend", {}, "Show"),
        ...SWITCHES.map((name) => box(name, kinds[name], (on) => { this.on[name] = on; }))));
      if (this.part) {
        const input = page.element("input", { type: "checkbox", onchange: () => {
          this.offsets = input.checked ? [0, page.heatBytes(this.heat)] : this.part;
          const { chart } = this.panels[0];
          chart.setScale("y", { min: this.offsets[0], max: this.offsets[1] });
          this.movie.paint();
        } });
        row.append(page.element("label", { class: "switch" }, input, "the whole device"));
      }
      place.append(page.element("fieldset", { class: "switches" }, page.element("legend", {}, "By"),
        ...this.heat.processes.map((name, index) => box(name, [], (on) => { this.processes[index] = on; }))));
    }

    keys() {
      this.place.querySelector(".panels").addEventListener("keydown", (event) => {
        const acts = {
          ArrowLeft: () => this.shift(-0.2), ArrowRight: () => this.shift(0.2),
          "+": () => this.scale(0.5), "=": () => this.scale(0.5), "-": () => this.scale(2), Escape: () => this.reset(),
        };
        if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        acts[event.key]();
      });
    }

    zoom(from, to) {
      const least = this.duration / 1e5;
      if (to - from < least) return;
      this.range = [Math.max(0, from), Math.min(this.duration, to)];
      for (const panel of this.panels) panel.chart.setScale("x", { min: this.range[0], max: this.range[1] });
    }

    reset() {
      this.phase = "";
      if (this.select) this.select.value = "";
      this.zoom(0, this.duration);
    }

    scale(factor) {
      const [from, to] = this.range;
      const half = Math.min(this.duration, (to - from) * factor) / 2;
      const middle = Math.min(Math.max((from + to) / 2, half), this.duration - half);
      this.zoom(middle - half, middle + half);
    }

    shift(share) {
      const [from, to] = this.range;
      const step = Math.min(Math.max((to - from) * share, -from), this.duration - to);
      this.zoom(from + step, to + step);
    }

    choosePhase(name) {
      this.phase = name;
      const phase = this.timeline.phases.find((it) => it.name === name);
      if (!phase) return this.reset();
      const from = Math.min(...phase.spans.map((span) => span[0]));
      const to = Math.max(...phase.spans.map((span) => span[1]));
      const margin = (to - from) * 0.02;
      this.zoom(from - margin, to + margin);
    }

    showBurst(index) {
      const burst = this.bursts[index];
      const margin = Math.max(burst.to_s - burst.from_s, this.duration / 100) * 1.5;
      this.zoom(burst.from_s - margin, burst.to_s + margin);
      this.place.querySelector(".panels").scrollIntoView({ block: "nearest", behavior: "smooth" });
    }

    // --- What the panels show -------------------------------------------------
    bins(timeline = this.timeline) {
      const { bin_s: width, bins } = timeline.graph;
      return filled(bins, (_, index) => (index + 0.5) * width);
    }

    series(name, timeline = this.timeline) {
      timeline.unpacked ??= {};
      const packed = timeline.graph?.series[name];
      return packed == null ? null : timeline.unpacked[name] ??= page.numbers(packed);
    }

    /** Reads and writes over time of what the switches leave, from the cells of the heat map. */
    counted(what) {
      const { heat, cells } = this;
      const read = new Array(heat.columns).fill(0);
      const write = new Array(heat.columns).fill(0);
      for (let index = 0; index < cells.count; index++) {
        const kind = cells.kind[index];
        if (kind > JOURNAL || !this.shows(kind, cells.process[index])) continue;
        (READ.has(kind) ? read : write)[cells.column[index]] += cells[what][index] / heat.column_s;
      }
      return [filled(heat.columns, (_, index) => (index + 0.5) * heat.column_s), read, write];
    }

    /** Titles, units and series of the panels. */
    plan() {
      if (this.overlay) return this.overlayPlan();
      const plan = [];
      const lines = (title, form, list, more = {}) => {
        const known = list.map(([name, label, color, needs]) => ({ label, color, needs, values: this.series(name) })).filter((it) => it.values);
        if (known.length > 0) plan.push({ title, form, x: this.bins(), series: known, ...more });
      };
      if (this.timeline.graph) {
        const read = ["reads"];
        const write = ["writes"];
        lines("Throughput", page.format.rate, [
          ["read_bytes_per_s", "reads", "c0", read], ["write_bytes_per_s", "writes", "c2", write],
          ["metadata_bytes_per_s", "metadata", "c3", ["metadata"]], ["journal_bytes_per_s", "journal", "c4", ["writes", "journal"]],
        ], { count: "bytes" });
        lines("Seeks and flushes per second", page.format.count, [["seeks_per_s", "seeks", "s0"], ["flushes_per_s", "flushes", "s1"]]);
        lines("Requests per second", page.format.count, [["read_iops", "reads", "c0", read], ["write_iops", "writes", "c2", write]], { count: "requests" });
        lines("Latency of the device", page.format.ns, [["d2c_ns_p50", "median", "s0"], ["d2c_ns_p99", "99 %", "s1"]], { log: true });
        lines("Requests at the device", page.format.number, [["queue_depth", "queue depth", "s0"]], { height: 80 });
      }
      const { activity } = this.timeline;
      if (activity) this.activityPlan(activity, plan);
      return plan;
    }

    activityPlan(activity, plan) {
      const times = page.numbers(activity.times);
      const group = (series) => series.name.replace(/^cpu_/, "").replace(/_ns$/, "");
      const cpu = activity.series.filter((it) => it.kind === "cpu" && page.data.groups.some(([name]) => name === group(it)));
      cpu.sort((one, other) => page.group(group(one)).order - page.group(group(other)).order);
      if (cpu.length > 0) {
        const values = cpu.map((series) => page.numbers(series.values));
        const sums = [];
        values.forEach((line, index) => sums.push(line.map((value, at) => (value == null ? null : value + (index ? sums[index - 1][at] ?? 0 : 0)))));
        const series = cpu.map((it, index) => ({
          label: page.group(group(it)).title, color: `g${page.group(group(it)).order}`, values: sums[index], told: values[index], fill: true,
        })).filter((it) => it.told.some((value) => value > 0));
        plan.push({ title: "Processors busy", form: page.format.number, x: times, series: series.reverse() });
      }
      const memory = activity.series.filter((it) => it.kind === "memory" && !it.name.includes("cache"));
      const shown = memory.map((it, index) => ({ label: it.title, color: `s${index % 2}`, values: page.numbers(it.values) }));
      if (shown.length > 0) plan.push({ title: "Memory not yet written", form: page.format.bytes, x: times, series: shown.slice(0, 2), height: 80 });
    }

    overlayPlan() {
      const plan = [];
      const add = (title, form, read, more = {}) => {
        const own = this.timelines.map((timeline, index) => ({ timeline, index })).filter(({ timeline }) => timeline.graph);
        const tables = own.map(({ timeline }) => [this.bins(timeline), read(timeline)]);
        if (tables.length === 0 || tables.some(([, values]) => !values)) return;
        const [x, ...lines] = uPlot.join(tables);
        plan.push({ title, form, x, gaps: true, series: own.map(({ timeline, index }, at) => ({ label: timeline.target || timeline.graph.label, color: `t${(timeline.color ?? index) % 8}`, values: lines[at] })), ...more });
      };
      const sum = (timeline, names) => {
        const lines = names.map((name) => this.series(name, timeline)).filter(Boolean);
        return lines.length === 0 ? null : lines[0].map((_, at) => lines.reduce((total, line) => total + (line[at] ?? 0), 0));
      };
      add("Throughput", page.format.rate, (it) => sum(it, ["read_bytes_per_s", "write_bytes_per_s"]), { height: 150 });
      add("Seeks per second", page.format.count, (it) => this.series("seeks_per_s", it), { height: 150 });
      add("Requests per second", page.format.count, (it) => sum(it, ["read_iops", "write_iops"]), { height: 150 });
      add("Latency of the device, 99 %", page.format.ns, (it) => this.series("d2c_ns_p99", it), { log: true, height: 150 });
      return plan;
    }

    // --- Panels ----------------------------------------------------------------
    build() {
      const place = this.place.querySelector(".panels");
      const plan = this.plan();
      if (this.heat) plan.unshift({ title: "Offset on the device", heat: true, x: [0, this.duration], series: [], height: 240 });
      plan.forEach((spec, index) => {
        const values = page.element("span", { class: "values" });
        const remark = page.element("span", { class: "remark" });
        const plot = page.element("div", { class: "plot", role: "img", "aria-label": `${spec.title} over time` });
        place.append(page.element("div", { class: "panel-head" }, page.element("span", { class: "panel-title" }, spec.title), values, remark), plot);
        const panel = { spec, values, remark, last: index + 1 === plan.length };
        this.panels.push(panel);
        page.keep(plot, (width) => {
          panel.chart = this.chart(panel, plot, width);
          if (this.filtered) this.refill(panel);
          this.tell(panel, null);
          return panel.chart;
        });
      });
      if (this.heat) page.movie(this, place);
    }

    chart(panel, plot, width) {
      const { spec } = panel;
      const span = () => this.range[1] - this.range[0];
      const size = width < 420 ? 64 : 76;
      const labels = spec.heat && this.timeline.phases.length > 0;
      const y = spec.heat ? { range: () => this.offsets }
        : spec.log ? { distr: 3, log: 10, range: page.logRange }
          : { range: (_, __, most) => [0, (most || 1) * 1.1] };
      const form = page.format.short(spec.heat ? page.format.bytes : spec.form);
      const bottom = panel.last || spec.heat;
      return new uPlot({
        width,
        height: (spec.height ?? 104) + (bottom ? 24 : 0) + (labels ? 14 : 0),
        padding: [labels ? 18 : 6, 10, bottom ? 0 : 4, 0],
        scales: { x: { time: false, range: () => this.range }, y },
        axes: [
          page.axis({ size: bottom ? 26 : 0, show: Boolean(bottom), space: 56, values: (_, splits) => splits.map((split) => page.format.time(split, span())) }),
          page.axis({
            size, space: spec.heat ? 40 : 24, grid: { show: !spec.heat, stroke: () => page.color("grid"), width: 1 },
            values: (_, splits) => splits.map((split) => (split == null ? "" : form(split))),
          }),
        ],
        series: [{}, ...(spec.heat ? [{ paths: () => null, points: { show: false } }] : spec.series.map((series) => ({
          stroke: () => page.color(series.color), width: series.fill ? 0 : 1.4, points: { show: false }, spanGaps: Boolean(spec.gaps),
          fill: series.fill ? () => page.color(series.color) : undefined,
        })))],
        legend: { show: false },
        cursor: {
          y: false, points: { show: false }, drag: { x: true, y: false, setScale: false },
          sync: { key: this.sync.key, scales: ["x", null], filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
          bind: { dblclick: () => () => { this.reset(); return null; } },
        },
        hooks: {
          setSelect: [(u) => {
            if (u.select.width < 4) return;
            const [from, to] = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
            u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            this.zoom(from, to);
          }],
          setCursor: [(u) => this.tell(panel, u.cursor.left >= 0 ? u : null)],
          drawClear: [(u) => this.bands(u, spec)],
          draw: [(u) => { if (spec.heat) this.paintHeat(u); this.marks(u, spec); }],
        },
      }, spec.heat ? [[0, this.duration], [null, null]] : [spec.x, ...spec.series.map((series) => series.values)], plot);
    }

    inside(u, paint) {
      const { left, top, width, height } = u.bbox;
      u.ctx.save();
      u.ctx.beginPath();
      u.ctx.rect(left, top, width, height);
      u.ctx.clip();
      paint(u.ctx, u.bbox);
      u.ctx.restore();
    }

    /** The phases behind everything; their names above the heat map where there is room. */
    bands(u, spec) {
      if (this.overlay) return;
      const x = (time) => u.valToPos(time, "x", true);
      this.inside(u, (ctx, box) => this.timeline.phases.forEach((phase, index) => {
        ctx.fillStyle = page.color(this.phase === phase.name ? "chosen" : index % 2 ? "band" : "band2");
        for (const [from, to] of phase.spans) ctx.fillRect(x(from), box.top, Math.max(1, x(to) - x(from)), box.height);
      }));
      if (!spec.heat) return;
      const { ctx } = u;
      const { left, top, width } = u.bbox;
      ctx.save();
      ctx.font = page.font(11 * uPlot.pxRatio);
      ctx.fillStyle = page.color("muted");
      ctx.textAlign = "center";
      ctx.textBaseline = "bottom";
      let edge = left;
      const spans = this.timeline.phases.flatMap((phase) => phase.spans.map(([from, to]) => [from, to, phase.name])).sort((one, other) => one[0] - other[0]);
      for (const [from, to, name] of spans) {
        const begin = Math.max(x(from), left);
        const end = Math.min(x(to), left + width);
        const need = ctx.measureText(name).width;
        if (end - begin < need + 4 || begin < edge) continue;
        ctx.fillText(name, (begin + end) / 2, top - 4 * uPlot.pxRatio);
        edge = end;
      }
      ctx.restore();
    }

    paintHeat(u) {
      const [from, to] = this.range;
      this.inside(u, (ctx, box) => page.paintHeat(ctx, box, this.heat, this.cells, {
        from, to, low: this.offsets[0], high: this.offsets[1], shows: this.shows, least: Math.ceil(2 * uPlot.pxRatio),
      }));
    }

    /** Numbers of the bursts at the top, and the head of the movie. */
    marks(u, spec) {
      this.inside(u, (ctx, box) => {
        const ratio = uPlot.pxRatio;
        let edge = -Infinity;
        this.bursts.forEach((burst, index) => {
          const from = u.valToPos(burst.from_s, "x", true);
          const to = u.valToPos(burst.to_s, "x", true);
          // One outside of every phase says little of what was measured.
          const color = page.color(burst.outside ? "muted" : "accent");
          ctx.fillStyle = color;
          ctx.fillRect(from, box.top, Math.max(2 * ratio, to - from), 3 * ratio);
          const middle = (from + to) / 2;
          // A number needs room; the list below has them all.
          if (!spec.heat || middle - edge < 16 * ratio) return;
          edge = middle;
          ctx.beginPath();
          ctx.arc(middle, box.top + 10 * ratio, 8 * ratio, 0, 7);
          ctx.fillStyle = burst.outside ? page.color("card") : color;
          ctx.fill();
          ctx.strokeStyle = color;
          ctx.lineWidth = ratio;
          ctx.stroke();
          ctx.fillStyle = burst.outside ? color : page.color("card");
          ctx.font = page.font(10 * ratio, burst.outside ? 400 : 700);
          ctx.textAlign = "center";
          ctx.textBaseline = "middle";
          ctx.fillText(`${index + 1}`, middle, box.top + 10.5 * ratio);
        });
        if (spec.heat && this.playhead != null) {
          ctx.fillStyle = page.color("text");
          ctx.fillRect(u.valToPos(this.playhead, "x", true), box.top, ratio, box.height);
        }
      });
    }

    setPlayhead(time) {
      this.playhead = time;
      this.panels.find((panel) => panel.spec.heat)?.chart.redraw(false, false);
    }

    /** The values under the cursor; without one, what the colours mean. */
    tell(panel, u) {
      const { spec } = panel;
      if (spec.heat) return this.tellHeat(panel, u);
      const index = u?.cursor.idx;
      const told = spec.series.map((series, at) => {
        if (series.off) return "";
        const value = index == null ? undefined : series.told ? series.told[index] : u.data[at + 1][index];
        return page.element("span", {}, page.element("span", { class: "swatch", style: `background:var(--${series.color})` }),
          series.label, ...(index == null ? [] : [" ", page.element("b", {}, value == null ? "–" : spec.form(value))]));
      }).filter(Boolean);
      // Stacks are told from below.
      if (spec.series[0].fill) told.reverse();
      panel.values.replaceChildren(...told);
    }

    tellHeat(panel, u) {
      const { classes } = this.timeline.graph;
      if (!u) {
        const used = new Set(this.cells.kind);
        panel.values.replaceChildren(...classes.flatMap((title, kind) => (used.has(kind)
          ? [page.element("span", {}, page.element("span", { class: "swatch", style: `background:var(--c${kind})` }), title)] : [])));
        return;
      }
      const time = u.posToVal(u.cursor.left, "x");
      const words = [page.element("b", {}, page.format.time(time, Math.min(100, (this.range[1] - this.range[0]) / 10)))];
      if (u.cursor.event && u.over.matches(":hover")) {
        const offset = u.posToVal(u.cursor.top, "y");
        words.push(page.format.bytes(offset), ...page.tellHeat(this.heat, this.cells, time, offset, this.shows, classes));
      }
      panel.values.replaceChildren(...words.map((word) => page.element("span", {}, word)));
    }

    // --- Switches ------------------------------------------------------------
    refilter() {
      for (const panel of this.panels) this.refill(panel);
      this.movie?.paint();
    }

    refill(panel) {
      const { spec, chart } = panel;
      if (spec.heat) return chart.redraw(false, false);
      const off = (series) => Boolean(series.needs?.some((name) => !this.on[name]));
      spec.series.forEach((series) => { series.off = off(series); });
      if (spec.count && this.heat) {
        const filtered = this.filtered;
        let data = [spec.x, ...spec.series.map((series) => series.values)];
        if (filtered) {
          const [x, read, write] = this.counted(spec.count);
          // Metadata and journal cannot be told by process once more: the totals hold them.
          spec.series.forEach((series, index) => { if (index > 1) series.off = true; });
          data = [x, read, write, ...spec.series.slice(2).map(() => x.map(() => null))];
        }
        chart.setData(data, false);
      } else if (spec.title !== "Processors busy") {
        panel.remark.textContent = this.filtered && !spec.title.startsWith("Memory") ? "of all requests" : "";
      }
      chart.batch(() => spec.series.forEach((series, index) => chart.setSeries(index + 1, { show: !series.off })));
      chart.setScale("x", { min: this.range[0], max: this.range[1] });
      chart.redraw();
      this.tell(panel, null);
    }
  }
  page.Graph = Graph;
})();
