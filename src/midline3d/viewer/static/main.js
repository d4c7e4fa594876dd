// The page: one frame is shown everywhere at once; it plays, jumps, is corrected, and grows with the run.
import { askJson, Data } from "./data.js";
import { Corrections } from "./correct.js";
import { listen, listKeys } from "./keys.js";
import { Plots } from "./plots.js";
import { Scene } from "./scene.js";
import { Timeline } from "./timeline.js";
import { Views } from "./views.js";

const $ = (id) => document.getElementById(id);
const PACES = [0.1, 0.25, 0.5, 1, 2, 4, 8];

class Page {
  constructor(about) {
    this.data = new Data(about);
    this.place = -1;
    this.way = 1;
    this.playing = false;
    this.views = new Views($("views"), this.data, {
      click: (...at) => this.corrections.click(...at), hover: (...at) => this.corrections.hover(...at),
    });
    this.scene = new Scene($("space"), this.data);
    const callbacks = {
      go: (place) => this.go(place), describe: (place) => this.timeline.describe(place),
      window: (window) => {
        this.timeline.window = window;
        this.timeline.draw();
      },
    };
    this.timeline = new Timeline($("timeline"), this.data, callbacks);
    this.plots = new Plots(this.data, callbacks);
    this.corrections = new Corrections(this.data, this.views, {
      changed: () => this.check(), redraw: () => this.draw(), say: (text, fault) => this.say(text, fault), place: () => this.place,
      go: (place) => this.go(place), range: (range) => {
        this.timeline.range = range;
        this.timeline.draw();
      },
    });
    this.data.changed = () => this.draw();
    this.data.failed = (fault) => this.say(fault.message, true);
    this.controls();
  }

  async start() {
    const { about } = this.data;
    $("name").textContent = about.name;
    $("name").title = about.folder;
    document.title = `${about.name} – midline3d`;
    if (!about.crops) this.empty(about.fault);
    this.views.look.originals = !about.originals;
    $("whole").title = about.originals ? `Whole pictures: ${about.originals}` : $("whole").title;
    await this.check();
    const asked = Number(new URLSearchParams(location.hash.slice(1)).get("frame") ?? NaN);
    this.go(Number.isFinite(asked) ? this.data.place(asked) : 0);
  }

  empty(fault) {
    for (const view of this.views.views) {
      view.box.append(Object.assign(document.createElement("div"), { className: "empty", textContent: fault }));
    }
  }

  /** Looks what has changed on the server; again in a while. */
  async check() {
    clearTimeout(this.timer);
    let state = null;
    try {
      state = await askJson("state");
      this.answered = true;
    } catch (fault) {
      if (this.answered !== false) this.say(fault.message, true);
      this.answered = false;
    }
    if (state) await this.take(state);
    const soon = !state?.complete || state.digested < state.done;
    this.timer = setTimeout(() => this.check(), soon ? 1500 : 5000);
  }

  async take(state) {
    const before = this.state;
    this.state = state;
    const { total, done, complete } = state;
    if (state.total !== this.data.count) return location.reload(); // another run has taken its place
    $("run").textContent = complete ? `${total} frames` : `${done} of ${total} frames`;
    $("run").classList.toggle("live", !complete);
    $("run").title = state.log;
    if (before && !this.data.about.crops && state.ready && !before.ready) return location.reload();
    // What is derived of a long recording comes bit by bit: taken in when there is a quarter more of it, and at the end.
    const all = state.digested === state.done, more = state.digested > 1.25 * (this.digested ?? 0);
    const fresh = before?.version !== state.version, digested = state.digested !== this.digested && (all || more);
    if (!fresh && !digested) return;
    this.digested = state.digested;
    this.data.renew(state.version);
    if (!fresh) this.data.series.clear();
    await this.data.readWords();
    this.centroid = await this.data.readSeries("centroid").catch(() => null);
    this.timeline.renew();
    this.plots.renew();
    this.tally();
    await this.corrections.showHistory();
    if (this.place >= 0) this.refresh();
  }

  /** How many frames each jump leads to. */
  tally() {
    for (const button of document.querySelectorAll("[data-jump]")) {
      const is = this.test(button.dataset.jump);
      let count = 0;
      for (let place = 0; place < this.data.count; place++) count += is(place);
      button.querySelector(".tally")?.remove();
      button.append(Object.assign(document.createElement("span"), { className: "tally", textContent: count }));
      button.disabled = !count;
    }
  }

  test(kind) {
    const { status, edited, doubts } = this.data.words;
    const doubtful = (place) => status[place] >= 1 && status[place] <= 3;
    return {
      doubtful, head: (place) => (doubts[place] & 1) === 1, seam: (place) => (doubts[place] & 2) === 2,
      unreviewed: (place) => doubtful(place) && edited[place] === 0,
    }[kind];
  }

  jump(kind, way = 1) {
    if (!this.data.words) return;
    const is = this.test(kind), n = this.data.count;
    for (let step = 1; step <= n; step++) {
      const place = (((this.place + way * step) % n) + n) % n;
      if (is(place)) return this.go(place);
    }
    this.say("there is none");
  }

  go(place) {
    place = Math.min(this.data.count - 1, Math.max(0, Math.round(place)));
    if (place === this.place) return;
    this.way = place < this.place ? -1 : 1;
    this.place = place;
    this.refresh();
  }

  /** Shows the frame everywhere. */
  refresh() {
    const { place } = this, number = this.data.number(place);
    this.views.place = place;
    document.body.dataset.frame = number;
    if (document.activeElement !== $("frame")) $("frame").value = number;
    $("number").textContent = number;
    $("seconds").textContent = `${(number / this.data.about.fps).toFixed(2)} s`;
    this.timeline.place = place;
    this.timeline.draw();
    this.plots.show(place);
    this.inspect();
    this.corrections.show(place);
    this.data.ahead(this.views.look.layer, place, this.way, this.playing ? 2 : 1);
    this.data.still = false;
    clearTimeout(this.later);
    this.later = setTimeout(() => {
      this.data.still = true;
      if (this.views.look.whole) this.draw();
      history.replaceState(null, "", `#frame=${number}`);
    }, 150);
  }

  /** Draws what is there of the frame; called again whenever something comes in. */
  draw() {
    if (this.place < 0) return false;
    const there = this.views.show(this.place);
    if (there) {
      const curve = this.data.curve(this.place);
      this.scene.show(this.place, curve, this.centroid, this.views.draft);
      document.body.dataset.drawn = this.data.number(this.place);
    }
    return there;
  }

  async inspect() {
    const { data, place } = this;
    if (!data.words) return;
    const status = data.word("status", place), reason = data.word("reason", place), edited = data.word("edited", place);
    const badge = (text) => Object.assign(document.createElement("span"), { className: `badge ${text}`, textContent: text });
    const parts = [badge(status)];
    if (edited !== "automatic") parts.push(badge(edited));
    if (reason) parts.push(Object.assign(document.createElement("span"), { className: "why", textContent: `${reason}: ${data.about.meanings.reason[reason]}` }));
    $("verdict").replaceChildren(...parts);
    const names = ["loss", "length", "speed", "confidence", "deviation", "head_confidence", "explained", "sigma", "iota", "rho", "shift"];
    const all = await Promise.all(names.map((name) => data.readSeries(name).catch(() => null)));
    if (place !== this.place) return;
    const digits = { loss: 1, length: 3, speed: 3, sigma: 2, iota: 2, rho: 2, confidence: 2, deviation: 4, head_confidence: 2, explained: 2, shift: 1 };
    const rows = [];
    names.forEach((name, i) => {
      if (!all[i]) return;
      const series = data.about.series.find((each) => each.name === name);
      const shown = (name === "loss" ? all[i].slice(0, 1) : all[i]).map((column) => (Number.isFinite(column[place]) ? column[place].toFixed(digits[name]) : "–"));
      rows.push(Object.assign(document.createElement("dt"), { textContent: name.replace("_", " "), title: series.meaning }));
      rows.push(Object.assign(document.createElement("dd"), { textContent: `${shown.join("  ")}${series.unit ? ` ${series.unit}` : ""}`, title: series.columns.join(", ") }));
    });
    $("numbers").replaceChildren(...rows);
  }

  play(on = !this.playing) {
    this.playing = on;
    $("play").textContent = on ? "❚❚" : "▶";
    $("play").title = on ? "Pause (Space)" : "Play (Space)";
    document.body.dataset.playing = on ? "yes" : "";
    if (!on) return;
    if (this.place >= this.data.count - 1) this.go(0);
    let due = performance.now();
    const tick = (now) => {
      if (!this.playing) return;
      const each = 1000 / (this.data.about.fps * Number($("pace").value));
      if (now >= due && this.draw()) {
        // Never ahead of what is there: a frame that has not come yet is waited for, not skipped.
        const steps = Math.max(1, Math.min(8, Math.floor((now - due) / each) + 1));
        due = Math.max(due + steps * each, now - each);
        if (this.place + steps >= this.data.count) {
          this.go(this.data.count - 1);
          return this.play(false);
        }
        this.go(this.place + steps);
      }
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  setLook(change) {
    Object.assign(this.views.look, change);
    const { layer, whole, midline } = this.views.look;
    for (const button of $("layers").children) button.classList.toggle("on", button.dataset.layer === layer);
    $("whole").classList.toggle("on", whole);
    $("zoomed").classList.toggle("on", !whole);
    $("midline").classList.toggle("on", midline);
    if ("whole" in change) this.views.reset();
    document.body.dataset.drawn = "";
    this.draw();
  }

  setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("midline3d-theme", theme);
    this.timeline.renew();
    this.plots.renew();
    this.scene.renew();
    this.draw();
  }

  controls() {
    const { layers } = this.data.about;
    for (const layer of layers) {
      const button = Object.assign(document.createElement("button"), { textContent: layer[0].toUpperCase() + layer.slice(1), title: `${layer} (${layers.indexOf(layer) + 1})` });
      button.dataset.layer = layer;
      button.disabled = !this.data.about.crops;
      button.addEventListener("click", () => this.setLook({ layer }));
      $("layers").append(button);
    }
    for (const pace of PACES) $("pace").append(Object.assign(document.createElement("option"), { value: pace, textContent: `${pace}×`, selected: pace === 1 }));
    const clicks = {
      zoomed: () => this.setLook({ whole: false }), whole: () => this.setLook({ whole: true }),
      midline: () => this.setLook({ midline: !this.views.look.midline }), play: () => this.play(),
      back: () => this.go(this.place - 1), on: () => this.go(this.place + 1), help: () => $("keys").showModal(),
      theme: () => this.setTheme(matchDark() ? "light" : "dark"),
    };
    for (const [id, act] of Object.entries(clicks)) $(id).addEventListener("click", act);
    for (const button of document.querySelectorAll("[data-jump]")) {
      button.addEventListener("click", (event) => this.jump(button.dataset.jump, event.shiftKey ? -1 : 1));
    }
    $("frame").addEventListener("change", () => {
      const number = Number($("frame").value);
      if (Number.isFinite(number)) this.go(this.data.place(number));
      $("frame").value = this.data.number(this.place);
    });
    $("frame").addEventListener("keydown", (event) => event.key === "Enter" && $("frame").blur());
    listKeys($("keys-list"));
    this.setLook({});
    this.keys();
  }

  keys() {
    const step = (by) => () => (this.corrections.draft && Math.abs(by) === 1 ? this.corrections.carry(by) : this.go(this.place + by));
    const acts = {
      " ": () => this.play(), ArrowLeft: step(-1), ArrowRight: step(1), "Shift+ArrowLeft": step(-10), "Shift+ArrowRight": step(10),
      Home: () => this.go(0), End: () => this.go(this.data.count - 1), n: () => this.jump("doubtful"), "Shift+n": () => this.jump("doubtful", -1),
      d: () => this.jump("head"), g: () => this.jump("seam"), u: () => this.jump("unreviewed"), "Shift+d": () => this.jump("head", -1),
      "Shift+g": () => this.jump("seam", -1), "Shift+u": () => this.jump("unreviewed", -1), m: () => this.setLook({ midline: !this.views.look.midline }),
      z: () => this.setLook({ whole: !this.views.look.whole }), h: () => this.corrections.choose("head"), t: () => this.corrections.choose("tail"),
      b: () => this.corrections.choose("body"), Enter: () => this.corrections.keep(), Escape: () => this.corrections.drop(),
      i: () => this.corrections.mark(0), o: () => this.corrections.mark(1), s: () => this.corrections.order("swap"), x: () => this.corrections.order("bad"),
      a: () => this.corrections.order("accept"), "Ctrl+z": () => this.corrections.back("undo"), "Ctrl+Shift+z": () => this.corrections.back("redo"),
      "Ctrl+y": () => this.corrections.back("redo"), "?": () => $("keys").showModal(),
      r: () => {
        this.views.reset();
        this.scene.home?.();
        this.draw();
      },
    };
    this.data.about.layers.forEach((layer, i) => (acts[`${i + 1}`] = () => this.data.about.crops && this.setLook({ layer })));
    listen(acts);
  }

  say(text, fault = false) {
    const notice = $("notice");
    notice.textContent = text;
    notice.classList.toggle("fault", fault);
    notice.hidden = false;
    clearTimeout(this.saying);
    this.saying = setTimeout(() => (notice.hidden = true), fault ? 7000 : 2600);
  }
}

function matchDark() {
  const { theme } = document.documentElement.dataset;
  return theme === "dark" || (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
}

document.documentElement.dataset.theme = localStorage.getItem("midline3d-theme") ?? (matchDark() ? "dark" : "light");
try {
  const page = new Page(await askJson("about"));
  window.midline3d = page; // to look into from the browser's console
  await page.start();
  document.body.dataset.ready = "yes";
} catch (fault) {
  const notice = $("notice");
  Object.assign(notice, { textContent: fault.message, hidden: false, className: "fault" });
  console.error(fault);
}
