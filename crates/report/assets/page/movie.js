// The movie of the disk: a window of time that runs through the trace; what is older fades.
(() => {
  const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 100];

  page.movie = (graph, place) => {
    const { heat, cells, duration } = graph;
    const canvas = page.element("canvas", { class: "movie", role: "img", "aria-label": "The movie of the disk: where requests went, over a window of time that moves" });
    const play = page.element("button", { type: "button", class: "play" }, "▶ Play");
    const scrub = page.element("input", { type: "range", min: 0, max: 1000, value: 0, "aria-label": "Moment of the movie" });
    const clock = page.element("output", {});
    // The whole in about twenty seconds.
    const usual = SPEEDS.reduce((best, speed) => (Math.abs(Math.log(speed * 20 / duration)) < Math.abs(Math.log(best * 20 / duration)) ? speed : best));
    const speed = page.element("select", { "aria-label": "Speed" },
      ...SPEEDS.map((it) => page.element("option", { value: it, selected: it === usual }, `${it}×`)));
    place.after(page.element("div", { class: "movie-box" },
      page.element("h5", {}, "The disk as a movie"),
      canvas,
      page.element("div", { class: "row" }, play, scrub, clock, speed)));

    const length = Math.max(heat.column_s * 8, duration / 12);
    let now = 0;
    let running = false;
    let before = 0;

    const paint = () => {
      const ratio = Math.min(2, window.devicePixelRatio || 1);
      const width = Math.round(canvas.clientWidth * ratio);
      const height = Math.round(canvas.clientHeight * ratio);
      if (width < 8) return;
      if (canvas.width !== width) canvas.width = width;
      if (canvas.height !== height) canvas.height = height;
      const ctx = canvas.getContext("2d");
      ctx.fillStyle = page.color("band");
      ctx.fillRect(0, 0, width, height);
      const from = now - length;
      const [low, high] = graph.offsets;
      page.paintHeat(ctx, { left: 0, top: 0, width, height }, heat, cells, {
        from, to: now, low, high, shows: graph.shows, least: Math.ceil(3 * ratio),
        fade: (time) => (time > now ? 0 : 0.15 + 0.85 * (1 - (now - time) / length) ** 1.5),
      });
      ctx.fillStyle = page.color("muted");
      ctx.font = page.font(11 * ratio);
      ctx.textBaseline = "top";
      ctx.fillText(page.format.bytes(high), 6 * ratio, 5 * ratio);
      ctx.textBaseline = "bottom";
      ctx.fillText(page.format.bytes(low), 6 * ratio, height - 4 * ratio);
      const phase = graph.timeline.phases.find((it) => it.spans.some(([begin, end]) => now >= begin && now <= end));
      if (phase) {
        ctx.textAlign = "right";
        ctx.textBaseline = "top";
        ctx.fillStyle = page.color("text");
        ctx.fillText(phase.name, width - 8 * ratio, 6 * ratio);
        ctx.textAlign = "left";
      }
      clock.textContent = `${page.format.time(now, Math.min(duration, 60))} of ${page.format.time(duration, Math.min(duration, 60))}`;
      scrub.value = Math.round(now / duration * 1000);
    };

    const step = (time) => {
      if (!running) return;
      now = Math.min(duration, now + Math.max(0, time - before) / 1000 * Number(speed.value));
      before = time;
      paint();
      graph.setPlayhead(now);
      if (now >= duration) stop();
      else requestAnimationFrame(step);
    };
    const stop = () => {
      running = false;
      play.textContent = "▶ Play";
    };
    play.addEventListener("click", () => {
      if (running) return stop();
      if (now >= duration) now = 0;
      running = true;
      play.textContent = "❚❚ Pause";
      before = performance.now();
      requestAnimationFrame(step);
    });
    scrub.addEventListener("input", () => {
      now = scrub.value / 1000 * duration;
      paint();
      graph.setPlayhead(now);
    });
    graph.movie = { paint };
    now = Math.min(duration, length);
    new ResizeObserver(paint).observe(canvas);
    page.onTheme(paint);
  };
})();
