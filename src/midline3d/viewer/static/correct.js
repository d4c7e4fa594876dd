// Corrections: pins set by clicks, a frame refitted at once, carried on, kept or dropped; ranges marked; undone.
import { askJson } from "./data.js";

const HINTS = {
  none: "Choose what to pin, then click it in any view.",
  head: "Click the head in any view.",
  tail: "Click the tail in any view.",
  body: "Click where the body runs in any view.",
  busy: "Fitting …",
};
const NEAR = 6; // px of the screen within which a click means the pin that is there
const $ = (id) => document.getElementById(id);

export class Corrections {
  constructor(data, views, callbacks) {
    this.data = data;
    this.views = views;
    this.callbacks = callbacks; // changed(version), redraw(), say(text, fault), place(), go(place)
    this.part = null;
    this.pins = [];
    this.draft = null;
    this.curves = new Map();
    this.range = [null, null];
    this.kept = []; // pins of kept corrections
    this.busy = false;
    for (const button of document.querySelectorAll("#tools button")) {
      button.addEventListener("click", () => this.choose(button.dataset.part));
    }
    for (const [id, act] of Object.entries({
      keep: () => this.keep(), drop: () => this.drop(), "carry-on": () => this.carry(1), "carry-back": () => this.carry(-1),
      "range-in": () => this.mark(0), "range-out": () => this.mark(1), swap: () => this.order("swap"), bad: () => this.order("bad"),
      accept: () => this.order("accept"), undo: () => this.back("undo"), redo: () => this.back("redo"),
    })) $(id).addEventListener("click", act);
    if (!data.about.crops) for (const button of document.querySelectorAll("#tools button")) button.disabled = true;
    this.choose(null);
    this.showRange();
  }

  /** What the next click pins; the same again: nothing. */
  choose(part) {
    this.part = part === this.part ? null : part;
    for (const button of document.querySelectorAll("#tools button")) button.classList.toggle("on", button.dataset.part === this.part);
    document.body.classList.toggle("pinning", Boolean(this.part));
    if (!this.part) this.setEpipolar(null);
    this.hint();
  }

  hint() {
    $("hint").textContent = this.data.about.crops ? HINTS[this.busy ? "busy" : this.part ?? "none"] : "Frames cannot be fitted again without the crops.";
  }

  async click(camera, u, v) {
    if (!this.part || this.busy) return;
    const place = this.callbacks.place(), name = this.data.about.cameras[camera].name;
    if (this.pins.length && this.pins[0].place !== place) this.pins = [];
    const near = NEAR / this.views.views[camera].at.scale;
    const there = this.pins.findIndex((pin) => pin.camera === name && pin.part === this.part && Math.hypot(pin.u - u, pin.v - v) < near);
    if (there >= 0) return this.unpin(there, place);
    // An end is in one place of a view: another click moves it.
    if (this.part !== "body") this.pins = this.pins.filter((pin) => pin.camera !== name || pin.part !== this.part);
    this.pins.push({ place, camera: name, u, v, part: this.part });
    this.showPins();
    this.follow(camera, u, v);
    await this.refit(place);
  }

  /** A pin that is clicked again goes. */
  async unpin(index, place) {
    this.pins.splice(index, 1);
    this.showPins();
    if (this.pins.length) await this.refit(place);
    else await this.drop(true);
  }

  /** While pinning, the places that what is under the pointer can be at in the other views. */
  hover(camera, u, v) {
    if (!this.part || camera < 0) {
      if (!this.draft) this.setEpipolar(null);
      return;
    }
    if (this.asking) {
      this.next = [camera, u, v];
      return;
    }
    this.follow(camera, u, v);
  }

  async follow(camera, u, v) {
    this.asking = true;
    const frame = this.data.number(this.callbacks.place());
    const lines = await askJson(`epipolar?camera=${camera}&frame=${frame}&u=${u}&v=${v}`).catch(() => null);
    this.asking = false;
    if (lines && (this.part || this.draft)) this.setEpipolar({ camera, lines });
    if (this.next) {
      const next = this.next;
      this.next = null;
      this.hover(...next);
    }
  }

  setEpipolar(line) {
    this.views.epipolar = line;
    this.views.draw();
  }

  async refit(place) {
    const pins = this.pins.map(({ camera, u, v, part }) => ({ camera, u, v, part }));
    await this.work(async () => this.setDraft(await askJson("refit", { frame: this.data.number(place), pins })));
  }

  async work(act) {
    this.busy = true;
    this.hint();
    try {
      await act();
    } catch (fault) {
      this.callbacks.say(fault.message, true);
    }
    this.busy = false;
    this.hint();
  }

  /** What the server has of the draft. */
  async setDraft(answer) {
    this.draft = answer.draft;
    this.running = Boolean(answer.running);
    this.ended = answer.ended ?? "";
    if (answer.fault) this.callbacks.say(answer.fault, true);
    if (!this.draft) {
      this.curves.clear();
    } else {
      const wanted = this.draft.frames.map((each) => each.frame);
      for (const frame of this.curves.keys()) if (!wanted.includes(frame)) this.curves.delete(frame);
      if (this.number !== this.draft.number) for (const frame of [this.data.number(this.callbacks.place())]) this.curves.delete(frame);
      this.number = this.draft.number;
    }
    document.body.dataset.draft = this.draft ? this.draft.frames.length : "";
    document.body.dataset.running = this.running ? "yes" : "";
    this.showDraft();
    await this.show(this.callbacks.place());
    if (this.running) setTimeout(() => this.poll(), 250);
  }

  async poll() {
    await this.setDraft(await askJson("draft").catch(() => ({ draft: this.draft })));
  }

  showDraft() {
    $("draft").hidden = !this.draft;
    if (!this.draft) return;
    const rows = [], here = this.draft.frames.find((each) => each.frame === this.data.number(this.callbacks.place()));
    const number = (value) => (value === null || value === undefined ? "–" : value.toFixed(1));
    if (here) {
      const change = here.before ? (100 * (here.loss - here.before)) / here.before : 0;
      const side = here.before === null ? "" : here.loss <= here.before ? "better" : "worse";
      rows.push(["loss", number(here.before), number(here.loss), side]);
      if (here.before) rows.push(["", "", `${change > 0 ? "+" : ""}${change.toFixed(1)} %`, side]);
      rows.push(["status", this.data.words ? this.data.word("status", this.callbacks.place()) : "", here.status, ""]);
      if (here.distances.length) rows.push(["from the pins", "", here.distances.map((px) => px.toFixed(1)).join(", ") + " px", ""]);
    }
    const frames = this.draft.frames, span = frames.length > 1 ? `${frames[0].frame} to ${frames.at(-1).frame}` : `${frames[0].frame}`;
    rows.push([frames.length > 1 ? "frames" : "frame", "", span + (this.running ? " …" : ""), ""]);
    $("losses").replaceChildren(...rows.map(([name, before, now, side]) => {
      const row = document.createElement("tr");
      for (const [text, kind] of [[name, ""], [before, ""], [now, side]]) row.append(Object.assign(document.createElement("td"), { textContent: text, className: kind }));
      return row;
    }));
    $("ended").textContent = this.running ? "Carried on until nothing changes …" : this.ended && `Carried on: ${this.ended}.`;
    $("carry-on").disabled = $("carry-back").disabled = this.running;
  }

  /** The draft's midline of the frame that is shown. */
  async show(place) {
    const frame = this.data.number(place), made = this.draft?.frames.some((each) => each.frame === frame);
    this.views.draft = made ? this.curves.get(frame) ?? null : null;
    if (made && !this.curves.has(frame)) {
      const curve = await askJson(`draft-curve?frame=${frame}`).catch(() => null);
      if (curve && this.draft) this.curves.set(frame, curve);
      if (this.callbacks.place() === place) this.views.draft = this.draft ? curve : null;
    }
    if (this.draft) this.showDraft();
    this.showPins();
    this.callbacks.redraw();
  }

  showPins() {
    const frame = this.data.number(this.callbacks.place());
    const own = this.pins.filter((pin) => pin.place === this.callbacks.place());
    this.views.pins = own.length ? own : this.kept.filter((pin) => pin.frame === frame);
    this.views.draw();
  }

  async carry(way) {
    if (!this.draft || this.running) return;
    await this.work(async () => this.setDraft(await askJson("carry-on", { way })));
  }

  async keep() {
    if (!this.draft) return;
    await this.work(async () => {
      const { edit, version } = await askJson("keep", {});
      this.forget();
      await this.callbacks.changed(version);
      this.callbacks.say(`kept: ${describe(edit)}`);
    });
  }

  /** anyway: not only what is there to be dropped. */
  async drop(anyway = false) {
    if (!this.draft && !this.pins.length && !anyway) {
      this.choose(null);
      return;
    }
    await this.work(async () => {
      await askJson("drop", {});
      this.forget();
      await this.show(this.callbacks.place());
    });
  }

  forget() {
    [this.draft, this.pins, this.running] = [null, [], false];
    this.curves.clear();
    this.views.draft = this.views.epipolar = null;
    document.body.dataset.draft = "";
    $("draft").hidden = true;
    if (this.part) this.choose(null);
    this.showPins();
  }

  /** The range that marks apply to begins (0) or ends (1) at the frame shown; the same again: no more. */
  mark(side) {
    const place = this.callbacks.place();
    this.range[side] = this.range[side] === place ? null : place;
    const [first, last] = this.range;
    if (first !== null && last !== null && first > last) this.range[1 - side] = null;
    this.showRange();
  }

  get chosen() {
    const place = this.callbacks.place(), [first, last] = this.range;
    if (first === null && last === null) return [place, place];
    const ends = [first ?? place, last ?? place];
    return [Math.min(...ends), Math.max(...ends)];
  }

  showRange() {
    const [first, last] = this.range, number = (place) => this.data.number(place);
    const set = first !== null || last !== null;
    $("range").textContent = set ? `frames ${first === null ? "…" : number(first)} to ${last === null ? "…" : number(last)}` : "this frame";
    $("range-in").classList.toggle("on", first !== null);
    $("range-out").classList.toggle("on", last !== null);
    this.callbacks.range(set ? this.chosen : null);
  }

  async order(kind) {
    const [first, last] = this.chosen.map((place) => this.data.number(place));
    await this.work(async () => {
      const { edit, version } = await askJson("mark", { kind, first, last });
      this.range = [null, null];
      this.showRange();
      await this.callbacks.changed(version);
      this.callbacks.say(describe(edit));
    });
  }

  async back(which) {
    await this.work(async () => {
      const { edit, version } = await askJson(which, {});
      await this.callbacks.changed(version);
      this.callbacks.say(which === "undo" ? `undone${edit.frames ? `: ${spans(edit.frames)}` : ""}` : "done after all");
    });
  }

  /** The list of what was done, the newest first. */
  async showHistory() {
    const history = await askJson("history").catch(() => null);
    if (!history) return;
    this.kept = history.pins;
    const done = history.edits.filter((edit) => edit.kind !== "undo" && edit.kind !== "again");
    $("count").textContent = done.length ? `${done.filter((edit) => edit.stands).length}` : "";
    $("undo").disabled = !done.some((edit) => edit.stands);
    $("redo").disabled = history.edits[0]?.kind !== "undo";
    $("history").replaceChildren(...done.map((edit) => {
      const row = document.createElement("li"), what = document.createElement("span"), when = document.createElement("span");
      what.textContent = describe(edit);
      when.textContent = edit.when ? new Date(edit.when).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : "";
      when.className = "when";
      row.title = `${edit.who ?? ""}, ${edit.when ?? ""}, midline3d ${edit.version ?? ""}${edit.stands ? "" : ", undone"}`;
      row.classList.toggle("undone", !edit.stands);
      row.append(what, when);
      row.addEventListener("click", () => this.callbacks.go(this.data.place(edit.pins?.[0]?.frame ?? edit.frames[0][0])));
      return row;
    }));
    this.showPins();
  }
}

function spans(frames) {
  const listed = frames.slice(0, 3).map(([first, last]) => (first === last ? `${first}` : `${first} to ${last}`)).join(", ");
  return `${frames.length > 1 || frames[0][0] !== frames[0][1] ? "frames" : "frame"} ${listed}${frames.length > 3 ? " …" : ""}`;
}

function describe(edit) {
  const named = { refit: "refitted", swap: "swapped", bad: "marked bad", accept: "accepted" }[edit.kind] ?? edit.kind;
  return `${named} ${edit.frames ? spans(edit.frames) : ""}`.trim();
}
