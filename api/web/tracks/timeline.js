// The stretch of time that is seen, the same for every drawing of a run, and the histories that are drawn.

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
// Beyond the last event a little room is left, so that it does not stick to the edge.
const ROOM = 0.02;

export class Timeline {
  /** @param {Moment} moment @param {() => Table} sentences @param {() => void} changed */
  constructor(moment, sentences, changed) {
    this.moment = moment;
    this.sentences = sentences;
    this.changed = changed;
    /** @type {Map<string, History>} */
    this.histories = new Map();
    /** @type {Stretch | null} Null while the live end is followed, or a run is seen as a whole. */
    this.chosen = null;
    this.run = "";
    this.live_us = LIVE_US;
    this.seen_seq = -1;
    moment.subscribe(({ live, run }) => {
      // Whoever goes back to live wants to see what happens now.
      if (live || run !== this.run) this.chosen = null;
      this.run = run;
    });
  }

  /** The history of the run that is shown; begun when it is asked for the first time. @returns {History} */
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

  /** The live run goes on. @param {Entry} entry */
  take(entry) {
    if (this.histories.get("live")?.overgrown) this.forget();
    this.histories.get("live")?.take(entry, new Set(this.#unseen()));
  }

  /** The live run's numbers have a gap, or begin anew: what was drawn of it is read again. */
  forget() {
    this.histories.delete("live");
  }

  /** All there is of the run. @returns {Stretch} */
  all() {
    const { first_us, last_us, live, run } = this.moment.current();
    const known = this.histories.get(run)?.spans?.first_us ?? Infinity;
    const from_us = Math.min(first_us || Infinity, known, last_us - 1e6);
    const room = live ? 0 : (last_us - from_us) * ROOM;
    return { from_us: from_us - room, to_us: last_us + room };
  }

  /** What is seen. @returns {Stretch} */
  window() {
    const { live, run, at_us, seq } = this.moment.current();
    const all = this.all();
    if (this.chosen === null) {
      if (run !== "live") return all;
      const to_us = live ? all.to_us : Math.min(all.to_us, Math.max(at_us + this.live_us * 0.4, all.from_us + this.live_us));
      const stretch = { from_us: to_us - this.live_us, to_us };
      // In the past the picture stands still, also while the run goes on.
      if (!live) this.chosen = stretch;
      this.seen_seq = seq;
      return stretch;
    }
    if (!live && seq !== this.seen_seq) this.#bring(at_us);
    this.seen_seq = seq;
    return this.chosen;
  }

  /** Shift the stretch so that a moment is in it. @param {number} at_us */
  #bring(at_us) {
    if (this.chosen === null) return;
    const { from_us, to_us } = this.chosen;
    if (at_us >= from_us && at_us <= to_us) return;
    const width = to_us - from_us;
    this.chosen = within({ from_us: at_us - width * 0.5, to_us: at_us + width * 0.5 }, this.all());
  }

  /** See this stretch. @param {Stretch} stretch */
  see(stretch) {
    const { live } = this.moment.current();
    const all = this.all();
    // Live the newest stays in sight: only the width is chosen.
    if (live && stretch.to_us >= all.to_us - (stretch.to_us - stretch.from_us) * 0.02) {
      this.live_us = Math.min(stretch.to_us - stretch.from_us, Math.max(LIVE_US, all.to_us - all.from_us));
      this.chosen = null;
    } else {
      // A cluster that is younger than the window leaves its beginning empty: that is no reason to jump.
      const bounds = this.run === "live" || live ? { ...all, from_us: Math.min(all.from_us, all.to_us - this.live_us) } : all;
      this.chosen = within(stretch, bounds);
    }
    this.changed();
  }

  /** @param {number} factor below 1 nearer @param {number | null} fixed_us which moment stays in its place */
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

  /** See all there is. */
  fit() {
    this.see(this.all());
  }

  /** Read further back where somebody looks there. */
  reach() {
    const history = this.history();
    const { first_seq } = this.moment.current();
    if (history.spans === null || history.whole || history.busy) return;
    const { at_us } = this.moment.current();
    if (Math.min(this.window().from_us, at_us) < history.spans.first_us) void history.older(first_seq, this.#unseen());
  }
}
