// Every key, what it does, and the list of them.

export const KEYS = [
  ["Space", "play, pause"], ["← →", "a frame back, on; with a draft: carry on"], ["Shift ← →", "ten frames"], ["Home End", "first, last frame"],
  ["N", "next suspect or lost frame (Shift: the one before)"], ["D", "next doubt about the head"], ["G", "next seam"], ["U", "next unreviewed frame"],
  ["1 2 3 4", "image, render, residual, difference"], ["M", "midline on, off"], ["Z", "zoomed, whole"], ["R", "views and 3D as they were"],
  ["H T B", "pin the head, the tail, the body"], ["Enter", "keep the draft"], ["Esc", "drop the draft, the tool"], ["I O", "range from, to here"],
  ["S", "swap head and tail"], ["X", "mark bad"], ["A", "accept"], ["Ctrl Z", "undo (Shift: redo)"],
];

export function listKeys(element) {
  for (const [keys, what] of KEYS) {
    element.append(Object.assign(document.createElement("kbd"), { textContent: keys }), Object.assign(document.createElement("span"), { textContent: what }));
  }
}

/** Calls the action of a key, unless something is being typed. */
export function listen(actions) {
  addEventListener("keydown", (event) => {
    if (event.target.closest?.("input, select, textarea, dialog[open]") || event.metaKey || event.altKey) return;
    const name = (event.ctrlKey ? "Ctrl+" : "") + (event.shiftKey ? "Shift+" : "") + (event.key.length === 1 ? event.key.toLowerCase() : event.key);
    const act = actions[name] ?? (event.key === "?" ? actions["?"] : undefined);
    if (!act) return;
    event.preventDefault();
    // A button that has the focus must not take Space and Enter for itself.
    if (document.activeElement instanceof HTMLButtonElement) document.activeElement.blur();
    act(event);
  });
}
