// The midline in space: a tapered tube with its trail, the cameras around it, turned freely.
import * as THREE from "./vendor/three.module.min.js";
import { along, isDark } from "./colours.js";

const SIDES = 14; // of the tube's cross-section
const TRAIL = 3; // s

/** A tube whose points and widths change from frame to frame, made once. */
class Tube {
  constructor(points, colour, opacity = 1) {
    this.count = points;
    const geometry = (this.geometry = new THREE.BufferGeometry());
    const size = points * SIDES * 3;
    for (const name of ["position", "normal", "color"]) {
      geometry.setAttribute(name, new THREE.BufferAttribute(new Float32Array(size), 3));
    }
    const faces = [], colours = geometry.getAttribute("color");
    for (let i = 0; i < points; i++) {
      const [r, g, b] = colour ?? along(i / (points - 1));
      const shade = new THREE.Color().setRGB(r / 255, g / 255, b / 255, THREE.SRGBColorSpace);
      for (let j = 0; j < SIDES; j++) {
        colours.setXYZ(i * SIDES + j, shade.r, shade.g, shade.b);
        if (i + 1 < points) {
          const a = i * SIDES + j, b2 = i * SIDES + ((j + 1) % SIDES);
          faces.push(a, b2, a + SIDES, b2, b2 + SIDES, a + SIDES);
        }
      }
    }
    geometry.setIndex(faces);
    const material = new THREE.MeshStandardMaterial({
      vertexColors: true, roughness: 0.45, metalness: 0.05, transparent: opacity < 1, opacity, side: THREE.DoubleSide,
    });
    this.mesh = new THREE.Mesh(geometry, material);
    this.mesh.frustumCulled = false;
  }

  /** Points (flat, mm) and a radius for each. The cross-sections are carried along without twist. */
  set(points, radius) {
    const n = this.count, place = this.geometry.getAttribute("position"), normals = this.geometry.getAttribute("normal");
    const at = (i) => new THREE.Vector3(points[3 * i], points[3 * i + 1], points[3 * i + 2]);
    let side = null, before = null;
    for (let i = 0; i < n; i++) {
      const here = at(i), tangent = at(Math.min(n - 1, i + 1)).sub(at(Math.max(0, i - 1))).normalize();
      if (!side) {
        side = new THREE.Vector3(Math.abs(tangent.x) < 0.8 ? 1 : 0, Math.abs(tangent.x) < 0.8 ? 0 : 1, 0);
        side.addScaledVector(tangent, -side.dot(tangent)).normalize();
      } else {
        side.applyQuaternion(new THREE.Quaternion().setFromUnitVectors(before, tangent)).normalize();
      }
      before = tangent;
      const up = new THREE.Vector3().crossVectors(tangent, side);
      for (let j = 0; j < SIDES; j++) {
        const angle = (2 * Math.PI * j) / SIDES, c = Math.cos(angle), s = Math.sin(angle), r = radius[i] ?? 0.02;
        const [x, y, z] = [c * side.x + s * up.x, c * side.y + s * up.y, c * side.z + s * up.z];
        place.setXYZ(i * SIDES + j, here.x + r * x, here.y + r * y, here.z + r * z);
        normals.setXYZ(i * SIDES + j, x, y, z);
      }
    }
    place.needsUpdate = normals.needsUpdate = true;
  }
}

/** A word that faces the viewer, always of one size on the screen (see `draw`). */
function word(text, colour) {
  const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
  [canvas.width, canvas.height] = [256, 64];
  pen.font = "600 34px system-ui, sans-serif";
  pen.fillStyle = colour;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(text, 128, 32);
  const map = new THREE.CanvasTexture(canvas);
  map.colorSpace = THREE.SRGBColorSpace;
  const sprite = new THREE.Sprite(new THREE.SpriteMaterial({ map, depthTest: false, sizeAttenuation: false }));
  return sprite;
}

export class Scene {
  constructor(element, data) {
    this.data = data;
    this.canvas = element.querySelector("canvas");
    try {
      this.renderer = new THREE.WebGLRenderer({ canvas: this.canvas, antialias: true, preserveDrawingBuffer: true });
    } catch {
      element.insertAdjacentHTML("beforeend", '<div class="empty">This browser has no WebGL: the midline is shown in the views alone.</div>');
      return;
    }
    this.length = 1;
    this.target = new THREE.Vector3();
    this.turn = new THREE.Quaternion();
    this.distance = 3;
    this.shift = new THREE.Vector3();
    this.scene = new THREE.Scene();
    this.camera = new THREE.PerspectiveCamera(32, 1, 0.01, 500);
    this.tube = new Tube(data.about.keypoints);
    this.ghost = new Tube(data.about.keypoints, [53, 214, 230], 0.8);
    this.ghost.mesh.visible = false;
    this.trail = new THREE.Line(new THREE.BufferGeometry(), new THREE.LineBasicMaterial({ vertexColors: true, transparent: true }));
    this.trail.frustumCulled = false;
    this.stage = new THREE.Group();
    this.scene.add(this.tube.mesh, this.ghost.mesh, this.trail, this.stage);
    this.scene.add(new THREE.HemisphereLight(0xffffff, 0x556070, 1.6));
    this.sun = new THREE.DirectionalLight(0xffffff, 1.8);
    this.scene.add(this.sun);
    this.up = this.upward();
    this.home();
    this.listen();
    this.renew();
    new ResizeObserver(() => this.draw()).observe(element);
  }

  /** Up in the world: against the first camera's v, which runs down its picture. */
  upward() {
    const rotation = this.data.about.cameras[0]?.rotation;
    return rotation ? new THREE.Vector3(...rotation[1]).negate().normalize() : new THREE.Vector3(0, 0, 1);
  }

  /** From where the first look is: between the cameras, a little from above. */
  home() {
    const look = new THREE.Vector3();
    for (const camera of this.data.about.cameras) {
      if (camera.rotation) look.add(new THREE.Vector3(...camera.rotation[2]).normalize());
    }
    if (look.length() < 0.2) look.set(0.5, 0.6, 0.6);
    look.normalize().addScaledVector(this.up, -0.35).normalize();
    const matrix = new THREE.Matrix4().lookAt(look.clone().negate(), new THREE.Vector3(), this.up);
    this.turn.setFromRotationMatrix(matrix);
    this.shift.set(0, 0, 0);
    this.distance = 0;
  }

  /** Floor, axes and cameras, of a size that suits the animal. */
  renew() {
    if (!this.renderer) return;
    this.stage.clear();
    const dark = isDark(), size = this.length, half = 0.75 * size;
    this.scene.background = new THREE.Color(dark ? 0x0a0d12 : 0xf6f7f9);
    const head = word("head", dark ? "#ffd34e" : "#a87400");
    if (this.head) {
      head.position.copy(this.head.position);
      head.visible = this.head.visible;
      this.scene.remove(this.head);
    }
    this.head = head;
    this.scene.add(head);
    const step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2].find((mm) => (2 * half) / mm <= 12) ?? 5;
    const lines = Math.ceil(half / step), grid = new THREE.GridHelper(2 * lines * step, 2 * lines, dark ? 0x3a4554 : 0xaab2bf, dark ? 0x1f2732 : 0xd9dee6);
    grid.quaternion.setFromUnitVectors(new THREE.Vector3(0, 1, 0), this.up);
    grid.position.copy(this.up).multiplyScalar(-0.55 * size);
    this.stage.add(grid);
    document.getElementById("space-scale").textContent = `grid ${step} mm`;
    for (const camera of this.data.about.cameras) if (camera.rotation) this.stage.add(this.cameraIcon(camera, size, dark));
  }

  /** Cameras stand a metre away: drawn on a sphere around the animal, looking the way they do. */
  cameraIcon(camera, size, dark) {
    const group = new THREE.Group(), [right, down, ahead] = camera.rotation.map((row) => new THREE.Vector3(...row).normalize());
    const place = ahead.clone().multiplyScalar(-0.95 * size), w = 0.07 * size, deep = 0.13 * size;
    const corner = (x, y) => place.clone().addScaledVector(ahead, deep).addScaledVector(right, x * w).addScaledVector(down, y * w);
    const corners = [corner(-1, -1), corner(1, -1), corner(1, 1), corner(-1, 1)], points = [];
    for (let i = 0; i < 4; i++) points.push(place, corners[i], corners[i], corners[(i + 1) % 4]);
    points.push(place.clone().addScaledVector(ahead, deep), place.clone().addScaledVector(ahead, 0.4 * size));
    const colour = dark ? 0x7f8da3 : 0x6b788c;
    const lines = new THREE.LineSegments(new THREE.BufferGeometry().setFromPoints(points), new THREE.LineBasicMaterial({ color: colour, transparent: true, opacity: 0.8 }));
    const label = word(camera.name, dark ? "#9fb0c8" : "#44506a");
    label.position.copy(place).addScaledVector(ahead, -0.08 * size).addScaledVector(this.up, 0.13 * size);
    group.add(lines, label);
    return group;
  }

  listen() {
    let down = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      down = [event.clientX, event.clientY, event.button === 2 || event.shiftKey];
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!down) return;
      const [dx, dy] = [event.clientX - down[0], event.clientY - down[1]];
      [down[0], down[1]] = [event.clientX, event.clientY];
      if (down[2]) {
        const px = this.distance / this.canvas.clientHeight;
        this.shift.add(new THREE.Vector3(-dx * px * 0.6, dy * px * 0.6, 0).applyQuaternion(this.turn));
      } else {
        const step = new THREE.Quaternion().setFromEuler(new THREE.Euler(-dy * 0.008, -dx * 0.008, 0));
        this.turn.multiply(step).normalize();
      }
      this.draw();
    });
    this.canvas.addEventListener("pointerup", () => (down = null));
    this.canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    this.canvas.addEventListener("dblclick", () => {
      this.home();
      this.draw();
    });
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.distance = Math.min(60 * this.length, Math.max(0.4 * this.length, this.distance * Math.exp(event.deltaY * 0.0012)));
      this.draw();
    }, { passive: false });
  }

  /** A frame: its curve, the centroids of all frames, and a draft beside it. */
  show(place, curve, centroid, draft) {
    if (!this.renderer) return;
    const found = curve && Number.isFinite(curve.position[0]);
    this.tube.mesh.visible = this.head.visible = Boolean(found);
    if (found) {
      this.tube.set(curve.position, this.data.about.radius);
      this.measure(curve.position);
      this.label(curve.position);
    }
    this.tube.mesh.material.opacity = draft ? 0.35 : 1;
    this.tube.mesh.material.transparent = Boolean(draft);
    this.ghost.mesh.visible = Boolean(draft);
    if (draft) {
      const [x, y, z] = this.data.about.centre;
      this.ghost.set(draft.position.flatMap((p) => [p[0] - x, p[1] - y, p[2] - z]), this.data.about.radius);
    }
    this.setTrail(place, centroid);
    this.draw();
  }

  /** The animal's size, once: the stage is built to it. */
  measure(points) {
    let length = 0;
    const middle = new THREE.Vector3();
    for (let i = 0; i < points.length; i += 3) {
      middle.add(new THREE.Vector3(points[i], points[i + 1], points[i + 2]));
      if (i) length += Math.hypot(points[i] - points[i - 3], points[i + 1] - points[i - 2], points[i + 2] - points[i - 1]);
    }
    this.target.copy(middle.multiplyScalar(3 / points.length));
    this.stage.position.copy(this.target);
    if (Math.abs(length / this.length - 1) > 0.25) {
      this.length = length;
      this.renew();
    }
  }

  label(points) {
    const head = new THREE.Vector3(points[0], points[1], points[2]), second = new THREE.Vector3(points[9], points[10], points[11]);
    const out = head.clone().sub(second).normalize();
    this.head.position.copy(head).addScaledVector(out, 0.09 * this.length).addScaledVector(this.up, 0.05 * this.length);
  }

  setTrail(place, centroid) {
    const back = Math.round(TRAIL * this.data.about.fps), points = [], colours = [], dark = isDark() ? 1 : 0.35;
    for (let i = Math.max(0, place - back); centroid && i <= place; i++) {
      if (!Number.isFinite(centroid[0][i])) continue;
      points.push(new THREE.Vector3(centroid[0][i], centroid[1][i], centroid[2][i]));
      const share = 1 - (place - i) / back;
      colours.push(dark * share + (1 - share) * (isDark() ? 0.05 : 0.95), dark * share + (1 - share) * (isDark() ? 0.06 : 0.95), (isDark() ? 1 : 0.8) * share + (1 - share) * (isDark() ? 0.08 : 0.95));
    }
    this.trail.geometry.dispose();
    this.trail.geometry = new THREE.BufferGeometry().setFromPoints(points);
    this.trail.geometry.setAttribute("color", new THREE.Float32BufferAttribute(colours, 3));
  }

  draw() {
    if (!this.renderer) return;
    const w = this.canvas.clientWidth, h = this.canvas.clientHeight;
    if (!w || !h) return;
    const density = Math.min(2, devicePixelRatio || 1);
    if (this.canvas.width !== Math.round(w * density) || this.canvas.height !== Math.round(h * density)) {
      this.renderer.setPixelRatio(density);
      this.renderer.setSize(w, h, false);
      this.camera.aspect = w / h;
      this.camera.updateProjectionMatrix();
    }
    if (!this.distance) this.distance = this.length * (3.7 / Math.min(1, w / h));
    this.scene.traverse((thing) => thing.isSprite && thing.scale.set(52 / h, 13 / h, 1));
    const back = new THREE.Vector3(0, 0, 1).applyQuaternion(this.turn);
    const at = this.target.clone().add(this.shift);
    this.camera.position.copy(at).addScaledVector(back, this.distance);
    this.camera.quaternion.copy(this.turn);
    this.sun.position.copy(back).addScaledVector(this.up, 1.2);
    this.renderer.render(this.scene, this.camera);
  }
}
