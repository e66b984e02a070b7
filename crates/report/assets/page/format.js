// Numbers in words: three digits and a unit.
(() => {
  const digits = (value) => {
    const size = Math.abs(value);
    if (size >= 99.95 || size === 0) return value.toFixed(0);
    if (size >= 9.995) return value.toFixed(1);
    return size >= 0.9995 ? value.toFixed(2) : value.toPrecision(2);
  };
  const scaled = (value, step, units) => {
    let place = 0;
    while (Math.abs(value) >= step * 0.9995 && place + 1 < units.length) {
      value /= step;
      place++;
    }
    return digits(value) + units[place];
  };
  const trim = (text) => text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");

  page.format = {
    digits,
    bytes: (value) => scaled(value, 1000, [" B", " kB", " MB", " GB", " TB"]),
    rate: (value) => `${page.format.bytes(value)}/s`,
    count: (value) => scaled(value, 1000, ["", "k", "M", "G"]),
    ns: (value) => (value >= 0.9995e9 ? `${digits(value / 1e9)} s` : scaled(value, 1000, [" ns", " µs", " ms"])),
    seconds: (value) => (value > 0 && value < 0.9995 ? page.format.ns(value * 1e9) : `${digits(value)} s`),
    number: (value) => trim(digits(value)),
    /** For axes: no digits that tell nothing. */
    short: (format) => (value) => trim(format(value)),
    whole: (value) => Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ","),
    /** A moment on an axis of `span` seconds. */
    time: (value, span) => {
      if (span >= 120) {
        const whole = Math.floor(value + 1e-9);
        return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
      }
      const places = span >= 20 ? 0 : span >= 2 ? 1 : span >= 0.2 ? 2 : 3;
      return `${value.toFixed(places)} s`;
    },
  };

  /** An element with attributes and children; text is always taken literally. */
  page.element = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (value === true) element.setAttribute(key, "");
      else if (value !== false && value != null) element.setAttribute(key, value);
    }
    element.append(...children);
    return element;
  };
})();
