// The canvas of the tracks and its controls: select a moment by click or drag, zoom by the wheel, details on hover.

import { partitionsShown } from "../partition_filter.js";
import { AXIS, draw } from "./draw.js";
import { layout } from "./layout.js";
import { drawOverview } from "./overview.js";
import { Palette } from "./palette.js";
import { timeAt, xOf } from "./scale.js";
import { describeAt } from "./describe.js";

/**
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {import("../store.js").State} State
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("./draw.js").Window} Window
 * @typedef {import("./timeline.js").Timeline} Timeline
 */

const NARROW = 640;
const CLICK_PX = 4;

export class Stage {
  /** @param {Moment} moment @param {Timeline} timeline */
  constructor(moment, timeline) {
    this.moment = moment;
    this.timeline = timeline;
    /** @type {HTMLElement | null} */
    this.view = null;
    /** @type {HTMLCanvasElement | null} */
    this.canvas = null;
    /** @type {HTMLCanvasElement | null} */
    this.overview = null;
    /** @type {Palette | null} */
    this.palette = null;
    this.drawn = "";
    this.drawn_overview = "";
    /** The number of drawings, for a test. */
    this.draws = 0;
    /** @type {Window | null} */
    this.window = null;
    /** @type {State | null} */
    this.state = null;
    /** @type {import("../fold.js").ClusterState | null} The state with the log end offsets to show. */
    this.offsets = null;
    this.sizes = new ResizeObserver(() => this.timeline.changed());
    for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
      matchMedia(query).addEventListener("change", () => this.recolor());
    }
  }

  /** The colours have changed. */
  recolor() {
    this.palette = null;
    this.drawn = this.drawn_overview = "";
    this.timeline.changed();
  }

  /** @param {Element | undefined} element */
  setView = (element) => {
    if (this.view === element) return;
    this.sizes.disconnect();
    this.view = element instanceof HTMLElement ? element : null;
    if (this.view === null) return;
    this.sizes.observe(this.view);
    const view = this.view;
    view.addEventListener("scroll", () => this.paint());
    view.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    view.addEventListener("pointerdown", (event) => this.#press(event));
    view.addEventListener("pointermove", (event) => this.#hover(event));
    view.addEventListener("pointerleave", () => this.#tip(null, 0, 0));
  };

  /** @param {Element | undefined} element */
  setCanvas = (element) => {
    this.canvas = element instanceof HTMLCanvasElement ? element : null;
    this.drawn = "";
  };

  /** @param {Element | undefined} element */
  setOverview = (element) => {
    if (this.overview === element) return;
    this.overview = element instanceof HTMLCanvasElement ? element : null;
    this.drawn_overview = "";
    this.overview?.addEventListener("pointerdown", (event) => this.#brush(event));
  };

  /** Set the data to draw; the drawing follows after the page. @param {State} state @param {Model} m */
  show(state, m) {
    this.state = state;
    this.offsets = state.ui.offsets ? state.cluster : null;
    this.shown = partitionsShown(m.topics, state.ui.partitions).shown;
    queueMicrotask(() => this.paint());
  }

  paint() {
    const { view, canvas, state } = this;
    const spans = this.timeline.history().spans;
    if (!view?.isConnected || canvas === null || state === null || spans === null) return;
    this.palette ??= new Palette();
    const { from_us, to_us } = this.timeline.window();
    const { last_us } = this.moment.current();
    const [width, height] = [view.clientWidth, view.clientHeight];
    const gutter = width < NARROW ? 90 : Math.round(172 * this.palette.scale);
    const set = layout(spans, this.shown ?? [], AXIS * this.palette.scale, this.palette.scale, height);
    const inner = /** @type {HTMLElement} */ (view.firstElementChild);
    style(inner, "height", `${Math.max(height, set.pinned_height + set.height + 6)}px`);
    this.window = {
      from_us, to_us, now_us: last_us, first_us: spans.first_us, width, height, gutter, scrolled: view.scrollTop, layout: set, spans, palette: this.palette,
      offsets: this.offsets?.partitions ?? null,
    };
    const pixel_us = (to_us - from_us) / Math.max(1, width - gutter);
    const key = [spans.version, this.timeline.history().events[0]?.seq, Math.round(from_us / pixel_us), pixel_us, width, height, gutter, view.scrollTop, devicePixelRatio,
      Math.round(Math.min(to_us, last_us) / pixel_us), set.rows.map((row) => row.lane).join(), this.offsets?.seq].join(" ");
    if (key !== this.drawn) {
      this.drawn = key;
      this.draws += 1;
      draw(sized(canvas, width, height), this.window);
    }
    this.#cursor();
    this.#overview();
  }

  /** The lines at the shown and the pinned moment. */
  #cursor() {
    const { view, window, moment } = this;
    if (view === null || window === null) return;
    const { live, at_us } = moment.current();
    const places = { ".cursor": live ? null : moment.player_us ?? at_us, ".pin": moment.pinned?.state.at_us ?? null };
    for (const [selector, at] of Object.entries(places)) {
      const line = /** @type {HTMLElement | null} */ (view.querySelector(selector));
      if (line === null) continue;
      const x = at === null ? -1 : xOf(window, at);
      const hidden = x < window.gutter - 1 || x > window.width + 1;
      if (line.hidden !== hidden) line.hidden = hidden;
      style(line, "transform", `translateX(${x.toFixed(1)}px)`);
      if (line.classList.contains("left") !== x > window.width - 120) line.classList.toggle("left");
    }
  }

  #overview() {
    const { overview, palette } = this;
    if (overview === null || palette === null) return;
    const [all, seen, history] = [this.timeline.all(), this.timeline.window(), this.timeline.history()];
    const { live, at_us } = this.moment.current();
    const [width, height] = [overview.parentElement?.clientWidth ?? 0, overview.clientHeight];
    const second = Math.max(1, (all.to_us - all.from_us) / Math.max(1, width));
    const key = [width, height, devicePixelRatio, history.spans?.version, history.events[0]?.seq, ...[all.from_us, all.to_us, seen.from_us, seen.to_us, live ? 0 : at_us].map((us) => Math.round(us / second))].join(" ");
    if (key === this.drawn_overview || history.spans === null) return;
    this.drawn_overview = key;
    const gutter = this.window?.gutter ?? 0;
    drawOverview(sized(overview, width, height), { all, seen, width, height, gutter, history, palette, at_us: live ? null : at_us });
  }

  /** @param {WheelEvent} event */
  #wheel(event) {
    if (this.window === null || this.view === null) return;
    const x = event.clientX - this.view.getBoundingClientRect().left;
    if (x < this.window.gutter || event.ctrlKey) return;
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.timeline.pan((event.deltaX || event.deltaY) / (this.window.width - this.window.gutter));
    } else {
      const { live } = this.moment.current();
      const near = live && this.window.width - x < 60;
      this.timeline.zoom(Math.exp(event.deltaY * 0.0016), near ? this.window.to_us : timeAt(this.window, x));
    }
  }

  /** @param {PointerEvent} event */
  #press(event) {
    const { view, window } = this;
    if (view === null || window === null || event.button !== 0) return;
    const left = view.getBoundingClientRect().left;
    if (event.clientX - left < window.gutter) return;
    const begin = event.clientX;
    let moved = false;
    const move = (/** @type {PointerEvent} */ e) => {
      if (Math.abs(e.clientX - begin) > CLICK_PX) moved = true;
      if (moved) this.#stand(e.clientX - left, null);
    };
    const up = (/** @type {PointerEvent} */ e) => {
      view.removeEventListener("pointermove", move);
      view.removeEventListener("pointerup", up);
      view.removeEventListener("pointercancel", up);
      if (e.type === "pointerup" && !moved) this.#stand(e.clientX - left, this.#told(e)?.seq ?? null);
    };
    view.setPointerCapture(event.pointerId);
    view.addEventListener("pointermove", move);
    view.addEventListener("pointerup", up);
    view.addEventListener("pointercancel", up);
  }

  /** Go to an event that was hit, or to the last one before. @param {number} x @param {number | null} seq */
  #stand(x, seq) {
    const { window } = this;
    if (window === null) return;
    const history = this.timeline.history();
    const place = seq ?? history.placeAt(timeAt(window, Math.min(Math.max(x, window.gutter), window.width)))?.seq ?? history.places[0]?.seq;
    if (place !== undefined) this.moment.scrub(place);
  }

  /** @param {{clientX: number, clientY: number}} event */
  #told(event) {
    if (this.view === null || this.window === null) return null;
    const { left, top } = this.view.getBoundingClientRect();
    return describeAt(this.window, event.clientX - left, event.clientY - top);
  }

  /** @param {PointerEvent} event */
  #hover(event) {
    const description = event.pointerType === "touch" || event.buttons ? null : this.#told(event);
    this.#tip(description?.text ?? null, event.clientX, event.clientY);
  }

  /** @param {string | null} text @param {number} x @param {number} y */
  #tip(text, x, y) {
    const tip = /** @type {HTMLElement | null} */ (this.view?.parentElement?.querySelector(".tip"));
    if (!tip) return;
    tip.hidden = text === null;
    if (text === null) return;
    tip.textContent = text;
    const { left, top, width } = /** @type {HTMLElement} */ (tip.parentElement).getBoundingClientRect();
    tip.style.transform = `translate(${Math.min(x - left + 14, width - tip.offsetWidth - 8)}px, ${y - top + 16}px)`;
  }

  /** Drag the brush of the overview, or one of its ends. @param {PointerEvent} event */
  #brush(event) {
    const { overview, window, timeline } = this;
    if (overview === null || window === null || event.button !== 0) return;
    const { left, width } = overview.getBoundingClientRect();
    const all = timeline.all();
    const of = { ...all, width, gutter: window.gutter };
    const seen = timeline.window();
    const x = event.clientX - left;
    const [begin, end] = [xOf(of, seen.from_us), xOf(of, seen.to_us)];
    const us = (all.to_us - all.from_us) / (width - window.gutter);
    /** @type {"from" | "to" | "both"} */
    const grip = Math.abs(x - begin) < 7 ? "from" : Math.abs(x - end) < 7 ? "to" : "both";
    const half = (seen.to_us - seen.from_us) / 2;
    // Outside the brush: move the brush there first.
    const base = grip === "both" && (x < begin || x > end) ? { from_us: timeAt(of, x) - half, to_us: timeAt(of, x) + half } : seen;
    const drag = (/** @type {PointerEvent} */ e) => {
      const by = (e.clientX - event.clientX) * us;
      timeline.see({
        from_us: grip === "to" ? base.from_us : Math.min(base.from_us + by, grip === "from" ? base.to_us - us : Infinity),
        to_us: grip === "from" ? base.to_us : Math.max(base.to_us + by, grip === "to" ? base.from_us + us : -Infinity),
      });
    };
    const up = () => {
      overview.removeEventListener("pointermove", drag);
      overview.removeEventListener("pointerup", up);
      overview.removeEventListener("pointercancel", up);
    };
    drag(event);
    overview.setPointerCapture(event.pointerId);
    overview.addEventListener("pointermove", drag);
    overview.addEventListener("pointerup", up);
    overview.addEventListener("pointercancel", up);
  }
}

/** Set a style only if it changes. @param {HTMLElement} element @param {"height" | "transform"} name @param {string} value */
function style(element, name, value) {
  if (element.style[name] !== value) element.style[name] = value;
}

/** A canvas of that size, drawn on in CSS pixels. @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
function sized(canvas, width, height) {
  const scale = Math.max(1, devicePixelRatio);
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  return ctx;
}
