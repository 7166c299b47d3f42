// The visible time range, shared by all drawings of a run, and the histories that are drawn.

import { History, unseenTypes } from "./history.js";
import { within, zoomed } from "./scale.js";

/**
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {import("../sentences.js").Table} Table
 * @typedef {import("../fold.js").Entry} Entry
 * @typedef {import("./scale.js").Stretch} Stretch
 */

const LIVE_US = 90e6;
const KEPT_MAX = 4;
// Some space after the last event, so that it is not at the edge.
const ROOM = 0.02;

export class Timeline {
  /** @param {Moment} moment @param {() => Table} sentences @param {() => void} changed */
  constructor(moment, sentences, changed) {
    this.moment = moment;
    this.sentences = sentences;
    this.changed = changed;
    /** @type {Map<string, History>} */
    this.histories = new Map();
    /** @type {Stretch | null} Null while the view follows the live end, or shows a whole run. */
    this.chosen = null;
    this.run = "";
    this.live_us = LIVE_US;
    this.seen_seq = -1;
    moment.subscribe(({ live, run }) => {
      // Back at the live end, show the latest events.
      if (live || run !== this.run) this.chosen = null;
      this.run = run;
    });
  }

  /** The history of the shown run, created on first use. @returns {History} */
  history() {
    const { run, first_seq, last_seq, info } = this.moment.current();
    let found = this.histories.get(run);
    if (found === undefined) {
      found = new History(run, this.changed);
      this.histories.set(run, found);
      for (const old of this.histories.keys()) if (this.histories.size > KEPT_MAX && old !== "live") this.histories.delete(old);
    }
    if (found.spans === null && !found.busy && !found.rests && info !== null && last_seq > 0 && Object.keys(this.sentences()).length) {
      void found.begin(first_seq, last_seq, this.#unseen());
    }
    return found;
  }

  #unseen() {
    return unseenTypes(this.sentences());
  }

  /** Add an event to the live run. @param {Entry} entry */
  take(entry) {
    if (this.histories.get("live")?.overgrown) this.forget();
    this.histories.get("live")?.take(entry, new Set(this.#unseen()));
  }

  /** The live run's numbers have a gap or start again: read its history again. */
  forget() {
    this.histories.delete("live");
  }

  /** The whole time of the run. @returns {Stretch} */
  all() {
    const { first_us, last_us, live, run } = this.moment.current();
    const known = this.histories.get(run)?.spans?.first_us ?? Infinity;
    const from_us = Math.min(first_us || Infinity, known, last_us - 1e6);
    const room = live ? 0 : (last_us - from_us) * ROOM;
    return { from_us: from_us - room, to_us: last_us + room };
  }

  /** The visible range. @returns {Stretch} */
  window() {
    const { live, run, at_us, seq } = this.moment.current();
    const all = this.all();
    if (this.chosen === null) {
      if (run !== "live") return all;
      const to_us = live ? all.to_us : Math.min(all.to_us, Math.max(at_us + this.live_us * 0.4, all.from_us + this.live_us));
      const stretch = { from_us: to_us - this.live_us, to_us };
      // In the past the range does not move, even while the run continues.
      if (!live) this.chosen = stretch;
      this.seen_seq = seq;
      return stretch;
    }
    if (!live && seq !== this.seen_seq) this.#bring(at_us);
    this.seen_seq = seq;
    return this.chosen;
  }

  /** Shift the range to include a moment. @param {number} at_us */
  #bring(at_us) {
    if (this.chosen === null) return;
    const { from_us, to_us } = this.chosen;
    if (at_us >= from_us && at_us <= to_us) return;
    const width = to_us - from_us;
    this.chosen = within({ from_us: at_us - width * 0.5, to_us: at_us + width * 0.5 }, this.all());
  }

  /** Show this range. @param {Stretch} stretch */
  see(stretch) {
    const { live } = this.moment.current();
    const all = this.all();
    // Live: the latest events stay visible; only the width changes.
    if (live && stretch.to_us >= all.to_us - (stretch.to_us - stretch.from_us) * 0.02) {
      this.live_us = Math.min(stretch.to_us - stretch.from_us, Math.max(LIVE_US, all.to_us - all.from_us));
      this.chosen = null;
    } else {
      // A cluster younger than the window leaves its beginning empty; do not jump because of that.
      const bounds = this.run === "live" || live ? { ...all, from_us: Math.min(all.from_us, all.to_us - this.live_us) } : all;
      this.chosen = within(stretch, bounds);
    }
    this.changed();
  }

  /** @param {number} factor below 1 zooms in @param {number | null} fixed_us the moment that stays in place */
  zoom(factor, fixed_us = null) {
    const { live, at_us } = this.moment.current();
    const window = this.window();
    this.see(zoomed(window, factor, fixed_us ?? (live ? window.to_us : Math.min(Math.max(at_us, window.from_us), window.to_us))));
  }

  /** @param {number} part of the window's width, to the right */
  pan(part) {
    const { from_us, to_us } = this.window();
    const by = (to_us - from_us) * part;
    this.see({ from_us: from_us + by, to_us: to_us + by });
  }

  /** Show the whole time. */
  fit() {
    this.see(this.all());
  }

  /** Load older events if they are visible. */
  reach() {
    const history = this.history();
    const { first_seq } = this.moment.current();
    if (history.spans === null || history.whole || history.busy) return;
    const { at_us } = this.moment.current();
    if (Math.min(this.window().from_us, at_us) < history.spans.first_us) void history.older(first_seq, this.#unseen());
  }
}
