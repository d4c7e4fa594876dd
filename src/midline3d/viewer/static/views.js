// The cameras side by side: crops or whole pictures, the midline over them, pins and epipolar lines.
import { along, css, named, RESIDUAL } from "./colours.js";

const CLICK = 4; // px that a pointer may move between down and up and still be a click

export class Views {
  constructor(element, data, callbacks) {
    this.data = data;
    this.callbacks = callbacks; // click(camera, u, v), hover(camera, u, v)
    this.look = { layer: "image", whole: false, midline: true };
    this.zoom = 1;
    this.pan = [0, 0]; // share of the view's width, the same in all of them
    this.place = 0;
    // px that are shown at least: a stretched worm with some room about it; the crop has more.
    this.reach = 1.12 * (data.about.length ?? Infinity) * (data.about.crops?.scale ?? 1);
    this.views = data.about.cameras.map((camera, index) => this.make(element, camera, index));
    element.style.gridTemplateColumns = `repeat(${Math.min(data.about.cameras.length, 4)}, minmax(0, 1fr))`;
    new ResizeObserver(() => this.draw()).observe(element);
  }

  make(element, camera, index) {
    const box = document.createElement("div");
    box.className = "view camera";
    box.innerHTML = '<canvas></canvas><span class="label"></span><span class="corner"></span>';
    box.querySelector(".label").textContent = camera.name;
    const canvas = box.querySelector("canvas");
    canvas.setAttribute("aria-label", `picture of ${camera.name}`);
    element.append(box);
    const view = { index, camera, canvas, corner: box.querySelector(".corner"), box, cell: null, at: null };
    this.listen(view);
    return view;
  }

  listen(view) {
    const { canvas } = view;
    let down = null;
    canvas.addEventListener("pointerdown", (event) => {
      down = { x: event.offsetX, y: event.offsetY, pan: [...this.pan], moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!down) {
        const at = this.pixel(view, event.offsetX, event.offsetY);
        if (at) this.callbacks.hover(view.index, ...at);
        return;
      }
      const [dx, dy] = [event.offsetX - down.x, event.offsetY - down.y];
      down.moved ||= Math.hypot(dx, dy) > CLICK;
      if (down.moved) {
        this.pan = [down.pan[0] - dx / canvas.clientWidth, down.pan[1] - dy / canvas.clientWidth];
        this.draw();
      }
    });
    canvas.addEventListener("pointerup", (event) => {
      if (down && !down.moved) {
        const at = this.pixel(view, event.offsetX, event.offsetY);
        if (at) this.callbacks.click(view.index, ...at);
      }
      down = null;
    });
    canvas.addEventListener("pointerleave", () => this.callbacks.hover(-1));
    canvas.addEventListener("dblclick", () => this.reset());
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomBy(Math.exp(-event.deltaY * 0.0015), view, event.offsetX, event.offsetY);
    }, { passive: false });
  }

  reset() {
    [this.zoom, this.pan] = [1, [0, 0]];
    this.draw();
  }

  /** Zooms all views, what is under the pointer staying there. */
  zoomBy(times, view, x, y) {
    const before = this.zoom, w = view.canvas.clientWidth, h = view.canvas.clientHeight;
    this.zoom = Math.min(24, Math.max(1, this.zoom * times));
    const grown = this.zoom / before;
    this.pan = [grown * (this.pan[0] + x / w - 0.5) - x / w + 0.5, grown * (this.pan[1] + (y - h / 2) / w) - (y - h / 2) / w];
    if (this.zoom === 1) this.pan = [0, 0];
    this.draw();
  }

  /** Full-picture px under a place of the canvas (CSS px); null before anything is drawn. */
  pixel(view, x, y) {
    const { at } = view;
    return at && [(x - at.x) / at.scale, (y - at.y) / at.scale];
  }

  show(place) {
    this.place = place;
    return this.draw();
  }

  /** Draws all views; true where everything that belongs to the frame was there. */
  draw() {
    const curve = this.data.curve(this.place);
    const crops = this.data.about.crops && this.data.crops(this.look.layer, this.place);
    const there = Boolean(curve) && (Boolean(crops) || !this.data.about.crops);
    if (there) for (const view of this.views) this.drawView(view, curve, crops);
    return there;
  }

  drawView(view, curve, crops) {
    const { canvas } = view, density = devicePixelRatio || 1;
    const [w, h] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(w * density) || canvas.height !== Math.round(h * density)) {
      [canvas.width, canvas.height] = [Math.round(w * density), Math.round(h * density)];
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(density, 0, 0, density, 0, 0);
    pen.fillStyle = named("stage");
    pen.fillRect(0, 0, w, h);
    const origin = [curve.origin[2 * view.index], curve.origin[2 * view.index + 1]];
    const at = (view.at = this.frame(view, origin, crops, w, h));
    if (crops || this.look.whole) this.drawPicture(pen, view, origin, crops, at);
    const k = this.data.about.keypoints;
    const line = curve.projection.subarray(view.index * k * 2, (view.index + 1) * k * 2);
    // What is left over lies under the midline: there it is drawn faintly.
    const faint = ["residual", "difference"].includes(this.look.layer) ? 0.45 : this.draft ? 0.8 : 1;
    if (this.look.midline) this.drawMidline(pen, line, at, faint);
    if (this.draft) this.drawDraft(pen, this.draft.projection[view.index], at);
    if (this.epipolar) this.drawEpipolar(pen, view, at);
    for (const pin of this.pins ?? []) if (pin.camera === view.camera.name) this.drawPin(pen, pin, at);
    this.drawScale(pen, at, w, h);
    view.corner.textContent = this.look.layer === "image" ? "" : this.look.layer;
  }

  /** Where the full picture's px 0, 0 lies on the canvas, and CSS px per px. */
  frame(view, origin, crops, w, h) {
    const size = view.camera.size ?? [512, 512], window = crops ? crops.w : Math.max(...size);
    const whole = this.look.whole || !crops || !Number.isFinite(origin[0]);
    const scale = this.zoom * (whole ? Math.min(w / size[0], h / size[1]) : Math.min(w, h) / Math.min(window, this.reach));
    const middle = whole ? [(size[0] - 1) / 2, (size[1] - 1) / 2] : origin.map((first) => first + (window - 1) / 2);
    return { scale, x: w / 2 - middle[0] * scale - this.pan[0] * w, y: h / 2 - middle[1] * scale - this.pan[1] * w };
  }

  drawPicture(pen, view, origin, crops, at) {
    pen.imageSmoothingEnabled = at.scale < 2;
    const put = (image, sx, sy, sw, sh, u, v) =>
      pen.drawImage(image, sx, sy, sw, sh, at.x + (u - 0.5) * at.scale, at.y + (v - 0.5) * at.scale, sw * at.scale, sh * at.scale);
    if (this.look.whole) {
      const picture = this.look.originals ? this.data.picture(view.index, this.place) : null;
      const size = view.camera.size ?? [512, 512];
      if (picture) {
        view.behind = picture;
        put(picture, 0, 0, picture.width, picture.height, 0, 0);
      } else {
        pen.strokeStyle = "#39424f";
        pen.strokeRect(at.x - at.scale / 2, at.y - at.scale / 2, size[0] * at.scale, size[1] * at.scale);
      }
      if (picture && this.look.layer === "image") return;
    }
    if (!crops || !Number.isFinite(origin[0])) return;
    if (this.look.layer !== "residual") {
      put(crops.bitmap, crops.x, crops.y(view.index), crops.w, crops.w, ...origin);
      return;
    }
    put(this.coloured(view, crops), 0, 0, crops.w, crops.w, ...origin);
  }

  /** A crop of residuals in colour. */
  coloured(view, crops) {
    view.cell ??= new OffscreenCanvas(crops.w, crops.w);
    if (view.cell.width !== crops.w) view.cell = new OffscreenCanvas(crops.w, crops.w);
    const pen = view.cell.getContext("2d", { willReadFrequently: true });
    pen.drawImage(crops.bitmap, crops.x, crops.y(view.index), crops.w, crops.w, 0, 0, crops.w, crops.w);
    const pixels = pen.getImageData(0, 0, crops.w, crops.w), bytes = pixels.data;
    for (let i = 0; i < bytes.length; i += 4) {
      const level = 3 * bytes[i];
      [bytes[i], bytes[i + 1], bytes[i + 2]] = [RESIDUAL[level], RESIDUAL[level + 1], RESIDUAL[level + 2]];
    }
    pen.putImageData(pixels, 0, 0);
    return view.cell;
  }

  path(line, at) {
    const path = new Path2D();
    for (let i = 0; i < line.length; i += 2) path.lineTo(at.x + line[i] * at.scale, at.y + line[i + 1] * at.scale);
    return path;
  }

  drawMidline(pen, line, at, alpha) {
    if (!Number.isFinite(line[0])) return;
    const count = line.length / 2;
    pen.globalAlpha = alpha;
    pen.lineCap = pen.lineJoin = "round";
    pen.strokeStyle = "rgb(0 0 0 / .55)";
    pen.lineWidth = 4;
    if (alpha === 1) pen.stroke(this.path(line, at));
    pen.lineWidth = alpha === 1 ? 2 : 1.4;
    for (let i = 0; i + 1 < count; i++) {
      pen.strokeStyle = css(along(i / (count - 1)));
      pen.beginPath();
      pen.moveTo(at.x + line[2 * i] * at.scale, at.y + line[2 * i + 1] * at.scale);
      pen.lineTo(at.x + line[2 * i + 2] * at.scale, at.y + line[2 * i + 3] * at.scale);
      pen.stroke();
    }
    this.dot(pen, at.x + line[0] * at.scale, at.y + line[1] * at.scale, 4.5, css(along(0)));
    pen.globalAlpha = 1;
  }

  dot(pen, x, y, radius, colour) {
    pen.beginPath();
    pen.arc(x, y, radius, 0, 7);
    pen.fillStyle = colour;
    pen.fill();
    pen.strokeStyle = "#0b0d11";
    pen.lineWidth = 1.2;
    pen.stroke();
  }

  drawDraft(pen, points, at) {
    const path = this.path(points.flat(), at), colour = "#35d6e6";
    pen.lineCap = "round";
    pen.strokeStyle = "rgb(0 0 0 / .6)";
    pen.lineWidth = 4.5;
    pen.stroke(path);
    pen.strokeStyle = colour;
    pen.lineWidth = 2.2;
    pen.stroke(path);
    this.dot(pen, at.x + points[0][0] * at.scale, at.y + points[0][1] * at.scale, 5, colour);
  }

  drawEpipolar(pen, view, at) {
    const { camera, lines } = this.epipolar;
    if (camera === view.index) return;
    pen.strokeStyle = "rgb(255 255 255 / .75)";
    pen.lineWidth = 1;
    pen.setLineDash([5, 4]);
    pen.stroke(this.path(lines[view.index].flat(), at));
    pen.setLineDash([]);
  }

  drawPin(pen, pin, at) {
    const [x, y] = [at.x + pin.u * at.scale, at.y + pin.v * at.scale], colour = { head: "#ffd34e", tail: "#5b86ff", body: "#ff5c8a" }[pin.part];
    pen.strokeStyle = "rgb(0 0 0 / .7)";
    for (const [width, style] of [[4, "rgb(0 0 0 / .7)"], [2, colour]]) {
      pen.lineWidth = width;
      pen.strokeStyle = style;
      pen.beginPath();
      pen.arc(x, y, 8, 0, 7);
      pen.moveTo(x - 12, y); pen.lineTo(x - 4, y);
      pen.moveTo(x + 4, y); pen.lineTo(x + 12, y);
      pen.moveTo(x, y - 12); pen.lineTo(x, y - 4);
      pen.moveTo(x, y + 4); pen.lineTo(x, y + 12);
      pen.stroke();
    }
    pen.font = "600 11px system-ui, sans-serif";
    pen.fillStyle = colour;
    pen.fillText(pin.part, x + 14, y - 6);
  }

  drawScale(pen, at, w, h) {
    const perMm = this.data.about.crops?.scale * at.scale;
    if (!(perMm > 0)) return;
    const long = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5].filter((mm) => mm * perMm < w / 3).pop() ?? 0.01;
    const right = w - 10, y = h - 10;
    pen.lineCap = "butt";
    pen.strokeStyle = "#e4e8ee";
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(right - long * perMm, y);
    pen.lineTo(right, y);
    pen.stroke();
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = "#e4e8ee";
    pen.textAlign = "right";
    pen.fillText(`${long} mm`, right, y - 5);
    pen.textAlign = "left";
  }
}
