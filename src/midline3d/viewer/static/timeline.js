// All frames in one strip: what became of them, what people did to them, where we are.
import { named } from "./colours.js";

const WORST = [1, 2, 3, 4, 0]; // of ok, suspect, lost, unreadable, pending: which shows where many share a px

export class Timeline {
  constructor(element, data, callbacks) {
    this.data = data;
    this.canvas = element.querySelector("canvas");
    this.place = 0;
    this.range = null;
    this.window = [0, data.count];
    this.bands = null;
    new ResizeObserver(() => this.renew()).observe(element);
    const go = (event) => callbacks.go(this.at(event.offsetX));
    let down = false;
    this.canvas.addEventListener("pointerdown", (event) => {
      down = true;
      this.canvas.setPointerCapture(event.pointerId);
      go(event);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (down) go(event);
      this.canvas.title = this.describe(this.at(event.offsetX));
    });
    this.canvas.addEventListener("pointerup", () => (down = false));
  }

  at(x) {
    const share = Math.min(1, Math.max(0, x / this.canvas.clientWidth));
    return Math.min(this.data.count - 1, Math.floor(share * this.data.count));
  }

  describe(place) {
    if (!this.data.words) return "";
    const why = this.data.word("reason", place), edited = this.data.word("edited", place);
    return `frame ${this.data.number(place)}: ${this.data.word("status", place)}${why ? `, ${why}` : ""}${edited === "automatic" ? "" : `, ${edited}`}`;
  }

  /** Words have changed, or the size, or the theme: the bands are drawn once and kept. */
  renew() {
    const density = devicePixelRatio || 1, w = Math.round(this.canvas.clientWidth * density), h = Math.round(this.canvas.clientHeight * density);
    if (!w || !this.data.words) return;
    [this.canvas.width, this.canvas.height] = [w, h];
    this.bands = new OffscreenCanvas(w, h);
    const pen = this.bands.getContext("2d"), { status, edited, doubts } = this.data.words, n = this.data.count;
    const colours = ["ok", "suspect", "lost", "unreadable", "pending"].map(named);
    const hands = [null, ...["pinned", "refitted", "accepted"].map(named)];
    const top = Math.round(h * 0.18), tall = Math.round(h * 0.5);
    for (let x = 0; x < w; x++) {
      const first = Math.floor((x * n) / w), last = Math.max(first + 1, Math.floor(((x + 1) * n) / w));
      let worst = status[first], hand = 0, doubt = 0;
      for (let i = first; i < last && i < n; i++) {
        if (WORST[status[i]] > WORST[worst]) worst = status[i];
        hand = edited[i] || hand;
        doubt |= doubts[i];
      }
      pen.fillStyle = colours[worst];
      pen.globalAlpha = worst === 0 ? 0.55 : 1;
      pen.fillRect(x, top, 1, tall);
      pen.globalAlpha = 1;
      if (hand) {
        pen.fillStyle = hands[hand];
        pen.fillRect(x, top + tall + 2, 1, Math.round(h * 0.14));
      }
      if (doubt) {
        pen.fillStyle = named("ink");
        pen.globalAlpha = 0.5;
        pen.fillRect(x, 0, 1, Math.round(h * 0.1));
        pen.globalAlpha = 1;
      }
    }
    this.draw();
  }

  draw() {
    if (!this.bands) return;
    const pen = this.canvas.getContext("2d"), w = this.canvas.width, h = this.canvas.height, n = this.data.count;
    pen.clearRect(0, 0, w, h);
    pen.drawImage(this.bands, 0, 0);
    const x = (place) => (place / n) * w, bar = Math.max(2, devicePixelRatio * 2);
    if (this.window[1] - this.window[0] < n) {
      pen.strokeStyle = named("accent");
      pen.lineWidth = devicePixelRatio;
      pen.strokeRect(x(this.window[0]), 1, x(this.window[1]) - x(this.window[0]), h - 2);
    }
    if (this.range) {
      pen.fillStyle = named("accent");
      pen.globalAlpha = 0.3;
      pen.fillRect(x(this.range[0]), 0, Math.max(bar, x(this.range[1] + 1) - x(this.range[0])), h);
      pen.globalAlpha = 1;
    }
    pen.fillStyle = named("ink");
    const here = x(this.place + 0.5);
    pen.fillRect(Math.round(here - bar / 2), 0, bar, h);
    pen.beginPath();
    pen.moveTo(here - 3 * bar, 0);
    pen.lineTo(here + 3 * bar, 0);
    pen.lineTo(here, 4 * bar);
    pen.fill();
  }
}
