// Hand clicks: one picture at a time, enlarged by a whole number, nothing drawn over it but one's own clicks.
const canvas = document.getElementById("picture");
const notice = document.getElementById("notice");
const colours = { head: "--head", tail: "--tail", "": "--body" };
let task, index = 0, label = "", bitmap = null, zoom = 1, saving = Promise.resolve();

async function ask(path, options) {
  const answer = await fetch(`/api/${path}`, options);
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error || `the viewer answered ${answer.status}`);
  return answer;
}

function tell(fault) {
  notice.textContent = fault.message;
  notice.hidden = false;
}

function draw() {
  const style = getComputedStyle(document.documentElement);
  const context = canvas.getContext("2d");
  const room = canvas.parentElement.getBoundingClientRect();
  zoom = Math.max(1, Math.floor(Math.min(room.width, room.height) / task.window));
  canvas.width = canvas.height = task.window * zoom;
  context.imageSmoothingEnabled = false;
  if (bitmap) context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  for (const click of task.images[index].clicks) {
    // Pixel centres lie at integers: the first pixel's middle is half a pixel from the canvas's border.
    context.beginPath();
    context.arc((click.u + 0.5) * zoom, (click.v + 0.5) * zoom, 4, 0, 2 * Math.PI);
    context.strokeStyle = style.getPropertyValue(colours[click.label]);
    context.lineWidth = 1.5;
    context.stroke();
  }
  const done = task.images.filter((image) => image.clicks.length).length;
  document.getElementById("place").textContent =
    `picture ${index + 1} of ${task.images.length}; ${task.images[index].clicks.length} clicks; ${done} pictures done`;
  for (const button of document.querySelectorAll("#labels button")) {
    button.classList.toggle("on", button.dataset.label === label);
  }
}

async function show(next) {
  index = Math.min(Math.max(next, 0), task.images.length - 1);
  const asked = index;
  bitmap = null;
  label = "";
  draw();
  const picture = await createImageBitmap(await (await ask(`crop?image=${asked}`)).blob());
  if (asked !== index) return;
  bitmap = picture;
  draw();
}

function save() {
  const image = index;
  const body = JSON.stringify({ image, clicks: task.images[image].clicks });
  // One after the other, so that the last state is the one that stays.
  saving = saving
    .then(() => ask("clicks", { method: "POST", headers: { "Content-Type": "application/json" }, body }))
    .then(() => { notice.hidden = true; })
    .catch(tell);
}

function click(event) {
  const box = canvas.getBoundingClientRect();
  const u = (event.clientX - box.left) / zoom - 0.5, v = (event.clientY - box.top) / zoom - 0.5;
  const clicks = task.images[index].clicks;
  if (label) task.images[index].clicks = clicks.filter((other) => other.label !== label);
  task.images[index].clicks.push({ u, v, label });
  label = "";
  draw();
  save();
}

function undo() {
  if (!task.images[index].clicks.pop()) return;
  draw();
  save();
}

function choose(next) {
  label = next;
  draw();
}

const keys = {
  h: () => choose("head"), t: () => choose("tail"), b: () => choose(""), backspace: undo,
  enter: () => show(index + 1).catch(tell), arrowright: () => show(index + 1).catch(tell),
  arrowleft: () => show(index - 1).catch(tell),
};

async function start() {
  task = await (await ask("task")).json();
  document.getElementById("who").textContent = task.who;
  const first = task.images.findIndex((image) => !image.clicks.length);
  canvas.addEventListener("click", click);
  document.getElementById("undo").addEventListener("click", undo);
  document.getElementById("back").addEventListener("click", () => show(index - 1).catch(tell));
  document.getElementById("on").addEventListener("click", () => show(index + 1).catch(tell));
  for (const button of document.querySelectorAll("#labels button")) {
    button.addEventListener("click", () => choose(button.dataset.label));
  }
  addEventListener("resize", draw);
  addEventListener("keydown", (event) => {
    const act = keys[event.key.toLowerCase()];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
  await show(Math.max(first, 0));
}

start().catch(tell);
