// The canvas and its controls: pointing, clicking, zooming, and moving from message to message by keys.

import { BOLD, draw, FONT, palette } from "./drawing.js";
import { pointedAt, scene } from "./scene.js";
import { details } from "./words.js";

/**
 * @typedef {import("../fold.js").Entry} Entry
 * @typedef {import("./words.js").Message} Message
 * @typedef {import("./scene.js").Scene} Scene
 * @typedef {import("./scene.js").Arrow} Arrow
 * @typedef {import("./scene.js").Point} Point
 * @typedef {{messages: Message[], events: {entry: Entry, us: number, text: string, weight: string}[], lanes: import("./lanes.js").Lane[],
 *   phases: import("./phases.js").Phase[], kind: import("./axis.js").Kind, window: import("./window.js").Window, anchor_us: number, at_us: number | null,
 *   when: (us: number) => string, goTo(seq: number): void, goNear(us: number): void, zoom(factor: number, around_us: number): void,
 *   changed(): void}} Shown
 */

const ZOOM_STEP = 1.25;
const WIDTH = 900;

export class Diagram {
  constructor() {
    /** @type {Shown | null} */
    this.shown = null;
    /** @type {Scene | null} */
    this.scene = null;
    /** @type {string[]} The description of the last selection, by lines. */
    this.told = [];
    this.unnamed = 0;
    /** @type {number | null} The message that is drawn as highlighted. */
    this.marked = null;
    /** @type {number | null} The selected message. */
    this.chosen = null;
    /** @type {HTMLElement | null} */
    this.place = null;
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", "space-time diagram");
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    this.canvas.addEventListener("pointermove", (event) => this.#point(event));
    this.canvas.addEventListener("pointerleave", () => this.#leave());
    this.canvas.addEventListener("click", (event) => this.#click(event));
    this.canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
    this.sizes = new ResizeObserver(() => this.#drawSoon());
    this.due = false;
    for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) matchMedia(query).addEventListener("change", () => this.#drawSoon());
  }

  /** Its width in pixels, also before the first drawing. */
  get width() {
    return this.place?.clientWidth || WIDTH;
  }

  /** The element that contains the diagram; undefined when it is removed. @param {Element | undefined} place */
  attach(place) {
    if (!(place instanceof HTMLElement)) {
      this.sizes.disconnect();
      this.place = null;
    } else if (this.place !== place) {
      this.place = place;
      if (this.canvas.parentElement !== place) place.append(this.canvas, this.tip);
      this.sizes.observe(place);
    }
    this.#drawSoon();
  }

  /** Show this from now on. It is drawn if anything has changed. @param {Shown} shown */
  show(shown) {
    const before = this.shown;
    this.shown = shown;
    const same = before !== null && before.messages === shown.messages && before.kind === shown.kind && before.at_us === shown.at_us
      && before.window.from_us === shown.window.from_us && before.window.to_us === shown.window.to_us && before.events.length === shown.events.length
      && JSON.stringify([before.lanes, before.phases]) === JSON.stringify([shown.lanes, shown.phases]);
    if (!same) this.#drawSoon();
  }

  #drawSoon() {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      this.#draw();
    });
  }

  #draw() {
    const [place, shown] = [this.place, this.shown];
    if (place === null || shown === null || place.clientWidth === 0) return;
    const ctx = this.canvas.getContext("2d");
    const measure = (/** @type {string} */ text, /** @type {boolean} */ bold) => {
      if (ctx === null) return text.length * 6;
      ctx.font = bold ? BOLD : FONT;
      return ctx.measureText(text).width;
    };
    this.scene = scene({ ...shown, width: place.clientWidth, measure });
    this.canvas.setAttribute("aria-label", `${shown.messages.length} messages between ${shown.lanes.length} processes from ${shown.when(shown.window.from_us)} to ${
      shown.when(shown.window.to_us)}. Comma and full stop select the previous and the next message, Enter goes to its moment, plus and minus zoom.`);
    this.#paint(this.chosen, true);
    if (this.unnamed !== this.scene.unnamed) {
      this.unnamed = this.scene.unnamed;
      shown.changed();
    }
  }

  /** @param {number | null} marked @param {boolean} anew whether more than the highlight has changed */
  #paint(marked, anew = false) {
    if (this.scene === null || this.shown === null || (marked === this.marked && !anew)) return;
    this.marked = marked;
    draw(this.canvas, this.scene, palette(this.canvas), { at_us: this.shown.at_us, marked, when: this.shown.when });
  }

  /** @param {MouseEvent} event @returns {[Arrow | Point | null, number, number]} */
  #under(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return [this.scene === null ? null : pointedAt(this.scene, x, y), x, y];
  }

  /** @param {PointerEvent} event */
  #point(event) {
    const [found, x, y] = this.#under(event);
    this.tip.hidden = found === null;
    this.canvas.style.cursor = found === null ? "default" : "pointer";
    if (found === null || this.shown === null) {
      this.#paint(this.chosen);
      return;
    }
    this.tip.replaceChildren(...this.#lines(found).map((text) => Object.assign(document.createElement("div"), { textContent: text })));
    const room = this.place?.clientWidth ?? 0;
    this.tip.style.left = `${Math.min(x + 14, Math.max(0, room - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${y + 16}px`;
    this.#paint("message" in found ? found.message.id : this.chosen);
  }

  #leave() {
    this.tip.hidden = true;
    this.#paint(this.chosen);
  }

  /** @param {Arrow | Point} found */
  #lines(found) {
    const when = this.shown?.when ?? String;
    return "message" in found ? details(found.message, when) : [`${found.entry.node}: ${found.text}`, `event ${found.entry.seq}`];
  }

  /** @param {MouseEvent} event */
  #click(event) {
    const [found] = this.#under(event);
    if (found === null || this.shown === null) return;
    if ("message" in found) this.#choose(found, true);
    else this.shown.goTo(found.entry.seq);
  }

  /** @param {Arrow} found @param {boolean} goes */
  #choose(found, goes) {
    this.chosen = found.message.id;
    this.told = this.#lines(found);
    this.#paint(this.chosen);
    if (goes) this.shown?.goNear(found.message.arrived_us ?? found.message.sent_us);
    this.shown?.changed();
  }

  /** @param {WheelEvent} event */
  #wheel(event) {
    // The wheel alone scrolls the page; with Ctrl, or two fingers, it zooms.
    if (!event.ctrlKey || this.scene === null || this.shown === null) return;
    event.preventDefault();
    const [, x] = this.#under(event);
    this.shown.zoom(event.deltaY > 0 ? ZOOM_STEP : 1 / ZOOM_STEP, this.scene.axis.us(x));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const { scene: of, shown } = this;
    if (of === null || shown === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = of.arrows.findIndex((each) => each.message.id === this.chosen);
    /** @type {Record<string, () => void>} */
    const acts = {
      ".": () => this.#step(Math.min(of.arrows.length - 1, at + 1)),
      ",": () => this.#step(at < 0 ? of.arrows.length - 1 : Math.max(0, at - 1)),
      Enter: () => at >= 0 && this.#choose(of.arrows[at], true),
      "+": () => shown.zoom(0.5, shown.anchor_us),
      "-": () => shown.zoom(2, shown.anchor_us),
    };
    if (!Object.hasOwn(acts, event.key)) return;
    event.preventDefault();
    acts[event.key]();
  }

  /** @param {number} place */
  #step(place) {
    const found = this.scene?.arrows[place];
    if (found) this.#choose(found, false);
  }
}
