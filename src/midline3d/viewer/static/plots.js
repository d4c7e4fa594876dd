// Time series and the kymograph below them, over one common stretch of frames; a click goes to a frame.
import { ask } from "./data.js";
import { BENDING, COLUMNS, isDark, named } from "./colours.js";

const LEFT = 56, RIGHT = 6; // px of the charts' axes
const SHOWN = ["loss", "confidence", "speed"]; // at first
const BAND = { 1: "suspect", 2: "lost", 3: "unreadable" };

/** A column as uPlot wants it: what is no number is null, and a gap. */
function gaps(column) {
  return column.some(Number.isNaN) ? Array.from(column, (value) => (Number.isNaN(value) ? null : value)) : column;
}

export class Plots {
  constructor(data, callbacks) {
    this.data = data;
    this.callbacks = callbacks;
    this.window = [0, data.count];
    this.place = 0;
    this.charts = new Map();
    this.box = document.getElementById("charts");
    this.kymo = document.querySelector("#kymograph canvas");
    this.kymoHead = document.querySelector("#kymograph .playhead");
    this.places = Float64Array.from({ length: data.count }, (_, i) => i);
    this.makeChips();
    this.kymo.addEventListener("pointerdown", (event) => this.clicked(event.offsetX / this.kymo.clientWidth));
    for (const element of [this.kymo, this.box]) {
      element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    }
    new ResizeObserver(() => this.resize()).observe(this.box);
  }

  makeChips() {
    const chips = document.getElementById("chips"), kept = JSON.parse(localStorage.getItem("midline3d-charts") ?? "null");
    for (const series of this.data.about.series) {
      const chip = document.createElement("button");
      chip.textContent = series.name.replace("_", " ");
      chip.title = series.meaning + (series.unit ? ` (${series.unit})` : "");
      chip.dataset.series = series.name;
      chip.addEventListener("click", () => this.toggle(series, chip));
      chips.append(chip);
      if ((kept ?? SHOWN).includes(series.name)) this.toggle(series, chip);
    }
  }

  toggle(series, chip) {
    const there = this.charts.get(series.name);
    if (there) {
      there.plot?.destroy();
      there.box.remove();
      this.charts.delete(series.name);
    } else {
      const box = document.createElement("div");
      box.className = "chart";
      box.dataset.series = series.name;
      box.innerHTML = '<div class="title"></div><div class="playhead"></div>';
      // The terms are so much smaller than their sum that they would flatten it: one click away.
      const hidden = new Set(series.name === "loss" ? series.columns.keys() : []);
      hidden.delete(0);
      this.charts.set(series.name, { series, box, plot: null, hidden });
      const order = this.data.about.series.map((each) => each.name);
      const after = [...this.box.children].find((other) => order.indexOf(other.dataset.series) > order.indexOf(series.name));
      this.box.insertBefore(box, after ?? null);
      this.fill(series.name);
    }
    chip.classList.toggle("on", !there);
    // Only the last chart has the axis of frames.
    for (const name of this.charts.keys()) if (name !== series.name) this.fill(name);
    localStorage.setItem("midline3d-charts", JSON.stringify([...this.charts.keys()]));
    requestAnimationFrame(() => this.resize());
  }

  async fill(name) {
    const columns = await this.data.readSeries(name).catch((fault) => this.data.failed?.(fault));
    const chart = this.charts.get(name);
    if (!chart || !columns) return;
    chart.plot?.destroy();
    chart.box.classList.toggle("last", chart.box === this.box.lastElementChild);
    const palette = COLUMNS[isDark() ? "dark" : "light"], { series } = chart;
    const title = chart.box.querySelector(".title");
    title.replaceChildren(Object.assign(document.createElement("b"), { textContent: series.name.replace("_", " ") + (series.unit ? ` (${series.unit})` : "") }));
    if (series.columns.length > 1) {
      series.columns.forEach((column, i) => {
        const button = document.createElement("button"), dash = document.createElement("i");
        dash.style.background = palette[i % palette.length];
        button.append(dash, column);
        button.title = `${column} on, off`;
        button.classList.toggle("off", chart.hidden.has(i));
        button.addEventListener("click", () => {
          chart.hidden[chart.hidden.has(i) ? "delete" : "add"](i);
          button.classList.toggle("off", chart.hidden.has(i));
          chart.plot.setSeries(i + 1, { show: !chart.hidden.has(i) });
        });
        title.append(button);
      });
    }
    chart.plot = new uPlot(this.options(chart, palette), [this.places, ...columns.map(gaps)], chart.box);
    this.heads();
  }

  options({ series, box, hidden }, palette) {
    const axis = { stroke: named("faint"), grid: { stroke: named("grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    return {
      width: Math.max(100, box.clientWidth), height: Math.max(60, box.clientHeight), padding: [6, RIGHT, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 5 }, sync: { key: "frames", setSeries: false } },
      scales: { x: { time: false, range: () => [this.window[0] - 0.5, this.window[1] - 0.5] } },
      axes: [
        { ...axis, size: (u) => (box === this.box.lastElementChild ? 18 : 0), show: true, values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) && tick >= 0 && tick < this.data.count ? this.data.number(tick) : "")) },
        { ...axis, size: LEFT, space: 22 },
      ],
      series: [{}, ...series.columns.map((label, i) => ({
        label, show: !hidden.has(i), stroke: palette[i % palette.length], width: series.name === "loss" && i ? 1 : 1.5, spanGaps: false,
        points: { show: (u) => (this.window[1] - this.window[0]) * 6 < u.bbox.width / devicePixelRatio, size: 4 },
      }))],
      hooks: {
        drawClear: [(u) => this.bands(u)],
        setSelect: [(u) => {
          if (u.select.width > 4) this.setWindow(Math.round(u.posToVal(u.select.left, "x")), Math.round(u.posToVal(u.select.left + u.select.width, "x")) + 1);
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        }],
        ready: [(u) => {
          let down = 0;
          u.over.addEventListener("mousedown", (event) => (down = event.clientX));
          u.over.addEventListener("click", (event) => {
            if (Math.abs(event.clientX - down) < 4) this.clicked(event.offsetX / u.over.clientWidth);
          });
          u.over.addEventListener("dblclick", () => this.setWindow(0, this.data.count));
          u.over.addEventListener("mousemove", (event) => (u.over.title = this.under(event.offsetX / u.over.clientWidth)));
        }],
      },
    };
  }

  /** What stands under the pointer: the frame, its status and why. */
  under(share) {
    const place = this.placeAt(share);
    return this.callbacks.describe(place);
  }

  /** Stretches of suspect and lost frames behind a chart. */
  bands(u) {
    const words = this.data.words, pen = u.ctx, { left, top, width, height } = u.bbox;
    if (!words) return;
    const columns = Math.round(width), [first, stop] = this.window;
    pen.save();
    pen.globalAlpha = 0.2;
    for (const [code, name] of Object.entries(BAND)) {
      pen.fillStyle = named(name);
      let begun = -1;
      for (let x = 0; x <= columns; x++) {
        let there = false;
        if (x < columns) {
          const from = Math.floor(first + (x * (stop - first)) / columns), to = Math.max(from + 1, Math.floor(first + ((x + 1) * (stop - first)) / columns));
          for (let i = from; i < to && !there; i++) there = words.status[i] === Number(code);
        }
        if (there && begun < 0) begun = x;
        if (!there && begun >= 0) {
          pen.fillRect(left + begun, top, x - begun, height);
          begun = -1;
        }
      }
    }
    pen.restore();
  }

  placeAt(share) {
    const [first, stop] = this.window;
    return Math.min(this.data.count - 1, Math.max(0, Math.floor(first + share * (stop - first))));
  }

  clicked(share) {
    this.callbacks.go(this.placeAt(share));
  }

  wheel(event) {
    if (!event.ctrlKey && Math.abs(event.deltaY) >= Math.abs(event.deltaX) && !event.shiftKey && event.currentTarget !== this.kymo) return;
    event.preventDefault();
    const [first, stop] = this.window, wide = stop - first, share = Math.min(1, Math.max(0, (event.clientX - this.kymo.getBoundingClientRect().left) / this.kymo.clientWidth));
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      const by = Math.round((event.deltaX || event.deltaY) * wide / 1000);
      this.setWindow(first + by, stop + by);
      return;
    }
    const next = Math.max(16, wide * Math.exp(event.deltaY * 0.002)), middle = first + share * wide;
    this.setWindow(Math.round(middle - share * next), Math.round(middle + (1 - share) * next));
  }

  setWindow(first, stop) {
    const n = this.data.count, wide = Math.min(n, Math.max(Math.min(16, n), stop - first));
    first = Math.min(n - wide, Math.max(0, first));
    this.window = [first, first + wide];
    for (const { plot } of this.charts.values()) plot?.redraw(true, true);
    for (const { plot } of this.charts.values()) plot?.setScale("x", { min: first - 0.5, max: first + wide - 0.5 });
    this.drawKymograph();
    this.heads();
    this.callbacks.window(this.window);
  }

  resize() {
    for (const { plot, box } of this.charts.values()) {
      if (plot && box.clientWidth > 100) plot.setSize({ width: box.clientWidth, height: Math.max(60, box.clientHeight) });
    }
    this.drawKymograph();
    this.heads();
  }

  /** Numbers or words have changed. */
  renew() {
    for (const name of this.charts.keys()) this.fill(name);
    this.drawKymograph();
  }

  show(place) {
    this.place = place;
    const [first, stop] = this.window;
    if (place < first || place >= stop) {
      const wide = stop - first;
      this.setWindow(Math.round(place - wide / 2), Math.round(place + wide / 2));
      return;
    }
    this.heads();
  }

  heads() {
    const [first, stop] = this.window, share = (this.place + 0.5 - first) / (stop - first);
    for (const head of document.querySelectorAll("#plots .playhead")) {
      const wide = head.parentElement.clientWidth - LEFT - RIGHT;
      head.style.left = `${LEFT + share * wide}px`;
      head.hidden = share < 0 || share > 1;
    }
  }

  async drawKymograph() {
    const wide = Math.round(this.kymo.clientWidth * (devicePixelRatio || 1)), { places } = this.data.about.kymograph;
    if (wide < 2) return;
    const [first, stop] = this.window, columns = Math.min(wide, Math.max(stop - first, 1), 8192);
    const mine = (this.asked = Symbol("asked"));
    const values = await ask(`kymograph?first=${first}&stop=${stop}&columns=${columns}`)
      .then(async (answer) => new Int8Array(await answer.arrayBuffer())).catch(() => null);
    if (!values || mine !== this.asked) return;
    [this.kymo.width, this.kymo.height] = [columns, places];
    const pen = this.kymo.getContext("2d"), pixels = pen.createImageData(columns, places), ramp = BENDING[isDark() ? "dark" : "light"];
    for (let x = 0; x < columns; x++) {
      for (let y = 0; y < places; y++) {
        const value = values[x * places + y], to = 4 * (y * columns + x), level = 3 * (value + 128);
        if (value === -128) continue;
        for (let i = 0; i < 3; i++) pixels.data[to + i] = ramp[level + i];
        pixels.data[to + 3] = 255;
      }
    }
    pen.putImageData(pixels, 0, 0);
  }
}
