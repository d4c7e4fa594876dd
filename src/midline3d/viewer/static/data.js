// What the page knows of the result: asked for once, kept as long as it is true.

/** Asks the server; a refusal becomes an Error with the server's own sentence. */
export async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(`/api/${path}`, options);
  } catch {
    throw new Error("the viewer does not answer; is it still running?");
  }
  if (!answer.ok) {
    const fault = await answer.json().catch(() => ({}));
    throw new Error(fault.error || `the viewer answered ${answer.status}`);
  }
  return answer;
}

export const askJson = async (path, body) => (await ask(path, body)).json();

/** Keeps the last things that were asked for, by key. */
class Kept {
  constructor(most, forget) {
    this.most = most;
    this.forget = forget;
    this.things = new Map();
  }
  get(key) {
    const thing = this.things.get(key);
    if (thing !== undefined) {
      this.things.delete(key);
      this.things.set(key, thing);
    }
    return thing;
  }
  set(key, thing) {
    this.things.set(key, thing);
    while (this.things.size > this.most) {
      const [oldest, gone] = this.things.entries().next().value;
      this.things.delete(oldest);
      this.forget?.(gone);
    }
  }
  drop(which) {
    for (const [key, thing] of [...this.things]) {
      if (which(key)) {
        this.things.delete(key);
        this.forget?.(thing);
      }
    }
  }
}

const MEMORY = 200e6; // bytes of strips that are kept
const AT_ONCE = 3; // requests for strips on their way: while scrubbing only the last wanted matters

export class Data {
  constructor(about) {
    this.about = about;
    this.count = about.frames.reduce((sum, [first, last]) => sum + last - first + 1, 0);
    const strip = 4 * about.strip.frames * about.cameras.length * (about.crops?.window ?? 1) ** 2;
    this.strips = new Kept(Math.max(6, Math.min(48, Math.floor(MEMORY / strip))), (bitmap) => bitmap.close?.());
    this.curves = new Kept(64);
    this.pictures = new Kept(24, (bitmap) => bitmap.close?.());
    this.waiting = new Map();
    this.queue = [];
    this.version = "";
    this.still = true; // whole pictures are asked for only where a frame stays for a moment
    this.words = null;
    this.series = new Map();
    this.changed = () => {};
  }

  /** The frame's number in the recording, by its place in the result. */
  number(place) {
    for (const [first, last] of this.about.frames) {
      if (place <= last - first) return first + place;
      place -= last - first + 1;
    }
    return NaN;
  }

  /** The place of a frame's number; the nearest where there is none. */
  place(number) {
    let before = 0;
    for (const [first, last] of this.about.frames) {
      if (number < first) return before;
      if (number <= last) return before + number - first;
      before += last - first + 1;
    }
    return before - 1;
  }

  /** Another version of the result: what depends on midlines is asked for again. */
  renew(version) {
    if (version === this.version) return;
    this.version = version;
    this.strips.drop((key) => !key.startsWith("image/"));
    this.curves.drop(() => true);
    this.series.clear();
  }

  /** One frame's crops of all cameras: the strip's bitmap and where in it; null until it is there. */
  crops(layer, place) {
    const first = place - (place % this.about.strip.frames);
    const bitmap = this.strips.get(`${layer}/${first}`);
    if (!bitmap) {
      this.want("strip", layer, first);
      return null;
    }
    const row = place - first, { across } = this.about.strip, w = this.about.crops.window;
    const cameras = this.about.cameras.length;
    return { bitmap, w, x: (row % across) * w, y: (camera) => (Math.floor(row / across) * cameras + camera) * w };
  }

  /** One frame's midline: position, projection, crop origins, confidence; null until it is there. */
  curve(place) {
    const size = this.about.strip.frames, first = place - (place % size);
    const block = this.curves.get(`${first}`);
    if (!block) {
      this.want("curves", "", first);
      return null;
    }
    const row = place - first, k = this.about.keypoints, c = this.about.cameras.length, n = block.frames;
    const cut = (start, each) => block.numbers.subarray(start + row * each, start + (row + 1) * each);
    const projection = n * k * 3, origin = projection + n * c * k * 2, confidence = origin + n * c * 2;
    return {
      position: cut(0, k * 3), projection: cut(projection, c * k * 2), origin: cut(origin, c * 2),
      confidence: cut(confidence, k),
    };
  }

  /** Asks for the strips around a place ahead of time. */
  ahead(layer, place, way, far) {
    const size = this.about.strip.frames;
    for (let step = 1; step <= far; step++) {
      const first = place - (place % size) + way * step * size;
      if (first < 0 || first >= this.count) return;
      if (!this.curves.get(`${first}`)) this.want("curves", "", first, true);
      if (this.about.crops && !this.strips.get(`${layer}/${first}`)) this.want("strip", layer, first, true);
    }
  }

  want(kind, layer, first, later = false) {
    const key = `${kind}/${layer}/${first}`;
    if (this.waiting.has(key)) return;
    this.queue = this.queue.filter((one) => one.key !== key);
    const one = { kind, layer, first, key };
    if (later) this.queue.unshift(one);
    else this.queue.push(one);
    if (this.queue.length > 8) this.queue.splice(0, this.queue.length - 8);
    this.next();
  }

  next() {
    while (this.waiting.size < AT_ONCE && this.queue.length) {
      const one = this.queue.pop();
      this.waiting.set(one.key, this.version);
      this.fetch(one).catch((fault) => this.failed?.(fault)).finally(() => {
        this.waiting.delete(one.key);
        this.next();
        this.changed();
      });
    }
  }

  async fetch({ kind, layer, first, key }) {
    if (kind === "strip") {
      const blob = await (await ask(`strip?layer=${layer}&first=${first}`)).blob();
      const bitmap = await createImageBitmap(blob);
      if (layer === "image" || this.waiting.get(key) === this.version) this.strips.set(`${layer}/${first}`, bitmap);
    } else {
      const numbers = new Float32Array(await (await ask(`curves?first=${first}`)).arrayBuffer());
      const frames = Math.min(this.about.strip.frames, this.count - first);
      if (this.waiting.get(key) === this.version) this.curves.set(`${first}`, { numbers, frames });
    }
  }

  /** The whole picture of a frame in one camera; null until it is there. */
  picture(camera, place) {
    const key = `${camera}/${place}`, found = this.pictures.get(key);
    if (found || !this.still || this.waiting.has(`picture/${key}`)) return found || null;
    this.waiting.set(`picture/${key}`, this.version);
    ask(`picture?camera=${camera}&frame=${this.number(place)}`)
      .then((answer) => answer.blob()).then(createImageBitmap)
      .then((bitmap) => this.pictures.set(key, bitmap))
      .catch((fault) => this.failed?.(fault))
      .finally(() => {
        this.waiting.delete(`picture/${key}`);
        this.changed();
      });
    return null;
  }

  /** Status, reason, edited and doubts of every frame: a byte each. */
  async readWords() {
    const bytes = new Uint8Array(await (await ask("words")).arrayBuffer());
    const n = bytes.length / 4;
    this.words = {
      status: bytes.subarray(0, n), reason: bytes.subarray(n, 2 * n), edited: bytes.subarray(2 * n, 3 * n),
      doubts: bytes.subarray(3 * n),
    };
    return this.words;
  }

  word(kind, place) {
    return this.about.words[kind][this.words[kind][place]];
  }

  /** A series' columns, each a Float32Array with a number for every frame. */
  async readSeries(name) {
    if (!this.series.has(name)) {
      this.series.set(name, ask(`series?name=${name}`).then(async (answer) => {
        const numbers = new Float32Array(await answer.arrayBuffer());
        const columns = numbers.length / this.count;
        return Array.from({ length: columns }, (_, i) => numbers.subarray(i * this.count, (i + 1) * this.count));
      }));
    }
    return this.series.get(name);
  }
}
