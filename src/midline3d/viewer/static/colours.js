// Colours of the page by their names in viewer.css, and the ramps that pictures and midlines are drawn in.

export function named(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const STOPS = [[255, 211, 78], [255, 92, 138], [79, 123, 255]];

/** Colour at a share of the way from head to tail, as [r, g, b] of 0 to 255. */
export function along(share) {
  const at = Math.min(0.9999, Math.max(0, share)) * (STOPS.length - 1), low = Math.floor(at), part = at - low;
  return STOPS[low].map((value, i) => value + (STOPS[low + 1][i] - value) * part);
}

export const css = ([r, g, b]) => `rgb(${r | 0} ${g | 0} ${b | 0})`;

function ramp(stops) {
  const colours = new Uint8ClampedArray(256 * 3);
  for (let level = 0; level < 256; level++) {
    const at = (level / 255) * (stops.length - 1), low = Math.min(stops.length - 2, Math.floor(at)), part = at - low;
    for (let i = 0; i < 3; i++) colours[3 * level + i] = stops[low][i] + (stops[low + 1][i] - stops[low][i]) * part;
  }
  return colours;
}

/** Of residuals: 128 is none, blue where the render is too faint, orange where it is too strong. */
export const RESIDUAL = ramp([[63, 167, 255], [20, 60, 110], [0, 0, 0], [115, 48, 16], [255, 123, 63]]);

/** Of curvature, either way, on a light and on a dark page. */
export const BENDING = {
  light: ramp([[33, 72, 150], [120, 165, 220], [247, 247, 247], [236, 150, 110], [165, 30, 40]]),
  dark: ramp([[110, 180, 255], [40, 85, 160], [18, 22, 30], [160, 60, 40], [255, 165, 100]]),
};

/** Distinct colours of a chart's columns. */
export const COLUMNS = {
  light: ["#1f6feb", "#d9640b", "#2f9e72", "#b0379b", "#7a5cc8", "#8a6d00"],
  dark: ["#5aa9ff", "#ff9d52", "#4fd0a0", "#f07ad6", "#b49bff", "#e0c04c"],
};

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
}
