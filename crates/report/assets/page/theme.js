// Light and dark, and the colours that the canvas shares with the style sheet.
(() => {
  const root = document.documentElement;
  const listeners = [];
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let styles = getComputedStyle(root);

  page.color = (name) => styles.getPropertyValue(`--${name}`).trim();
  page.target = (index) => page.color(`t${index % 8}`);
  page.rgb = (name) => {
    const hex = page.color(name);
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  };
  /** A font; uPlot enlarges whole numbers of pixels only. */
  page.font = (size = 12, weight = 400) => `${weight} ${size}px ${page.color("font")}`;
  /** Calls `repaint` when the colours change. */
  page.onTheme = (repaint) => listeners.push(repaint);

  const changed = () => {
    styles = getComputedStyle(root);
    for (const repaint of listeners) repaint();
  };
  const apply = (theme) => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    changed();
  };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

  document.getElementById("theme").addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    apply(theme);
    // A page that lies on the disk may have no storage.
    try { localStorage.setItem("fsdyno-theme", theme); } catch { /* forgotten, then */ }
  });
  try {
    const kept = localStorage.getItem("fsdyno-theme");
    if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  } catch { /* nothing was kept */ }
  dark.addEventListener("change", changed);

  // Paper is white.
  let before;
  let closed = [];
  window.addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    apply("light");
    // What is folded on a screen is not on paper.
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const details of closed) details.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
    apply(before);
  });
  styles = getComputedStyle(root);

  for (const swatch of document.querySelectorAll(".swatch[data-target]")) {
    swatch.style.background = `var(--t${swatch.dataset.target % 8})`;
  }
})();
