// The keys, anywhere on the page, unless the focused element uses them itself.

/**
 * @typedef {import("./moment.js").Moment} Moment
 * @typedef {import("./player.js").Player} Player
 */

/** @type {[string, string][]} For the dialog: the keys, and what they do. */
export const KEYS = [
  ["←, →", "previous event, next event"],
  ["Space", "play or pause"],
  ["e, i, x", "next election, ISR change, loss of records (with Shift: previous)"],
  ["Home, End", "first stored moment; back to live, or the end of a recorded run"],
  ["a", "pin this moment as A to see what changed since; press again to unpin"],
  ["c", "switch between A and this moment"],
  ["+, −, 0", "zoom in, zoom out, whole recording"],
  ["Page Up, Page Down", "tracks: half a window back, forward"],
  [",, .", "messages: previous message, next message"],
  ["Enter", "messages: go to the moment of the selected message"],
  ["o", "tracks: show each replica's log end offset and high watermark"],
  ["p", "projector mode: large view, tracks only"],
  ["r", "projector mode: show or hide the side panel"],
  ["l", "lecture mode: start or leave"],
  ["Page Up, Page Down", "lecture mode: previous play, next play"],
  ["n, g, R", "lecture mode: notes; run the play on this cluster; reset the cluster (press twice)"],
  ["1 … 7", "tabs; Compare is the last"],
  ["?", "show this list"],
];

/** @param {Moment} moment @param {Player} player @returns {Record<string, (event: KeyboardEvent) => void>} */
const bindings = (moment, player) => ({
  ArrowLeft: () => void moment.step(-1),
  ArrowRight: () => void moment.step(1),
  " ": () => player.toggle(),
  e: () => void moment.next("election"),
  E: () => void moment.next("election", -1),
  i: () => void moment.next("isr"),
  I: () => void moment.next("isr", -1),
  x: () => void moment.next("loss"),
  X: () => void moment.next("loss", -1),
  Home: () => void moment.first(),
  a: () => moment.pin(),
  c: () => moment.swap(),
  End: () => moment.toEnd(),
});

/** @param {Moment} moment @param {Player} player @param {Record<string, () => void>} others keys of the page around */
export function listen(moment, player, others) {
  /** @type {Record<string, (event: KeyboardEvent) => void>} */
  const bound = { ...bindings(moment, player), ...others };
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || takesKeys(event)) return;
    const act = Object.hasOwn(bound, event.key) ? bound[event.key] : undefined;
    if (act === undefined) return;
    event.preventDefault();
    act(event);
  });
}

/** Whether the focused element uses this key itself. @param {KeyboardEvent} event */
function takesKeys(event) {
  const at = event.target instanceof Element ? event.target : null;
  if (at === null || document.querySelector("dialog[open]")) return at !== null;
  if (at.closest("input:not([type=checkbox]), select, textarea, [contenteditable]")) return true;
  if (event.key === " ") return at.closest("button, a, summary, input, [role=region], .events, .history") !== null;
  return ["Home", "End", "ArrowLeft", "ArrowRight"].includes(event.key) && at.closest("[popover]") !== null;
}
