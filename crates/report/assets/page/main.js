// Puts every chart in its place.
(() => {
  const { data } = page;
  const charts = {
    ratios: page.ratioChart, bars: page.medianBars, durable: page.durableBars, cpu: page.cpuBars,
    trials: page.sampleLines, samples: page.sampleLines, curves: page.latencyLines,
  };
  const top = document.querySelector('[data-chart="top"] .plot');
  if (top) page.ratioChart(top, data.top);
  for (const section of document.querySelectorAll("[data-workload]")) {
    const own = data.workloads[section.dataset.workload];
    for (const figure of section.querySelectorAll("[data-chart]")) {
      const rows = own[figure.dataset.chart];
      const place = figure.querySelector(".plot");
      if (rows && rows.length > 0) charts[figure.dataset.chart](place, rows);
      else figure.closest(".card").hidden = true;
    }
  }

  for (const place of document.querySelectorAll("[data-graphs]")) {
    const indexes = place.dataset.graphs.split(" ").filter(Boolean).map(Number);
    const timelines = indexes.map((index) => {
      const timeline = data.timelines[index];
      const color = data.targets.indexOf(timeline.target);
      timeline.color = data.workloads.length === 0 || color < 0 ? index : color;
      return timeline;
    });
    const tabs = [...place.querySelectorAll(".thumb")];
    const panel = (tab) => document.getElementById(tab.getAttribute("aria-controls"));
    const show = (chosen) => {
      for (const tab of tabs) {
        const on = tab === chosen;
        tab.setAttribute("aria-selected", on);
        tab.tabIndex = on ? 0 : -1;
        panel(tab).hidden = !on;
      }
      const shown = panel(chosen);
      if (shown.graph) return;
      shown.graph = new page.Graph(shown, chosen.dataset.graph === "overlay" ? timelines : [data.timelines[chosen.dataset.graph]]);
    };
    tabs.forEach((tab, index) => {
      tab.addEventListener("click", () => show(tab));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!step) return;
        const other = tabs[(index + step + tabs.length) % tabs.length];
        other.focus();
        show(other);
      });
      thumb(tab, data.timelines[tab.dataset.graph], timelines);
    });
    if (tabs.length > 0) show(tabs[0]);
    // On paper nothing can be chosen: all of them, one below the other.
    let selected;
    window.addEventListener("beforeprint", () => {
      selected = tabs.find((tab) => tab.getAttribute("aria-selected") === "true");
      for (const tab of tabs) show(tab);
      for (const tab of tabs) panel(tab).hidden = false;
    });
    window.addEventListener("afterprint", () => { if (selected) show(selected); });
    if (tabs.length === 1) tabs[0].parentElement.hidden = true;
  }

  /** A small picture of what the tab shows. */
  function thumb(tab, timeline, all) {
    const canvas = tab.querySelector("canvas");
    const note = tab.querySelector(".thumb-note");
    const totals = timeline?.graph?.totals;
    if (totals) note.textContent = `${page.format.bytes(totals.read_bytes + totals.write_bytes)} in ${page.format.whole(totals.seeks)} seeks`;
    const paint = () => {
      const ratio = window.devicePixelRatio || 1;
      const width = canvas.width = Math.round(canvas.clientWidth * ratio);
      const height = canvas.height = Math.round(canvas.clientHeight * ratio);
      if (width < 4) return;
      const ctx = canvas.getContext("2d");
      ctx.fillStyle = page.color("band");
      ctx.fillRect(0, 0, width, height);
      if (timeline?.graph) {
        const { heat } = timeline.graph;
        timeline.cells ??= page.cells(heat);
        const [low, high] = page.usedBytes(heat, timeline.cells) ?? [0, page.heatBytes(heat)];
        page.paintHeat(ctx, { left: 0, top: 0, width, height }, heat, timeline.cells, {
          from: 0, to: timeline.duration_s, low, high, shows: () => true, least: Math.ceil(ratio),
        });
      } else if (!timeline) {
        lines(ctx, width, height, ratio, all);
      }
    };
    new ResizeObserver(paint).observe(canvas);
    page.onTheme(paint);
  }

  function lines(ctx, width, height, ratio, all) {
    const traced = all.filter((it) => it.graph?.series.write_bytes_per_s);
    const values = traced.map((it) => page.numbers(it.graph.series.write_bytes_per_s));
    const most = Math.max(1, ...values.flat().filter((value) => value != null));
    const longest = Math.max(...traced.map((it) => it.duration_s));
    traced.forEach((timeline, index) => {
      ctx.strokeStyle = page.target(timeline.color);
      ctx.lineWidth = ratio;
      ctx.beginPath();
      values[index].forEach((value, at) => ctx.lineTo((at + 0.5) * timeline.graph.bin_s / longest * width, height - (value ?? 0) / most * height * 0.92));
      ctx.stroke();
    });
  }
})();
