// Playback of a run from event to event, at any speed.

/**
 * @typedef {import("./moment.js").Moment} Moment
 * @typedef {import("../fold.js").Entry} Entry
 */

/** Microseconds of the run per microsecond of real time. */
export const SPEEDS = [0.001, 0.01, 0.1, 1, 10];
// The longest time with an unchanged picture: idle time beyond this is skipped.
const IDLE_MS = 1500;
const TICK_MS = 40;

/** The text of a speed: 1/1000 or 10 ×. @param {number} speed */
export const speedWord = (speed) => (speed < 1 ? `1/${Math.round(1 / speed)}` : `${speed} ×`);

export class Player {
  /** @param {Moment} moment @param {() => void} changed */
  constructor(moment, changed) {
    this.moment = moment;
    this.changed = changed;
    this.speed = 0.1;
    this.playing = false;
    /** The number of starts: after a pause and a new start, an old loop that still waits must not continue. */
    this.turns = 0;
    this.last_ms = 0;
    moment.subscribe((current) => {
      // If the user goes elsewhere during playback, it continues from there.
      if (this.playing && current.live) this.stop();
      else if (this.playing && !this.own) this.moment.player_us = current.at_us;
    });
    this.own = false;
  }

  toggle() {
    if (this.playing) this.stop();
    else void this.#play();
  }

  stop() {
    this.playing = false;
    this.moment.player_us = null;
    this.changed();
  }

  async #play() {
    const { live, first_seq, seq, last_seq } = this.moment.current();
    this.playing = true;
    const turn = (this.turns += 1);
    // The live end has no later events, so play the latest ones; at the end of a run, play all of it.
    if (live) this.moment.go({ at: Math.max(first_seq, seq - 100) });
    else if (seq >= last_seq && this.moment.current().run !== "live") this.moment.go({ at: first_seq });
    this.changed();
    await this.moment.seeking;
    const goesOn = () => this.playing && turn === this.turns;
    if (!goesOn()) return;
    this.moment.player_us = this.moment.current().at_us;
    this.last_ms = performance.now();
    while (goesOn()) {
      await new Promise((resolve) => setTimeout(resolve, TICK_MS));
      if (goesOn()) await this.#tick(goesOn);
    }
  }

  /** @param {() => boolean} goesOn */
  async #tick(goesOn) {
    const now_ms = performance.now();
    const passed_us = (now_ms - this.last_ms) * 1000 * this.speed;
    this.last_ms = now_ms;
    const { seq, last_seq, run, live } = this.moment.current();
    if (live || this.moment.player_us === null) return this.stop();
    if (seq >= last_seq) {
      if (run === "live") this.moment.go({ at: null });
      return this.stop();
    }
    /** @type {Entry[]} */
    const coming = await this.moment.entries(seq + 1, Math.min(last_seq, seq + 200)).catch(() => []);
    if (!goesOn() || this.moment.player_us === null) return undefined;
    this.moment.player_us += passed_us;
    const next = coming[0];
    if (next && next.wall_us - this.moment.player_us > IDLE_MS * 1000 * this.speed) this.moment.player_us = next.wall_us - IDLE_MS * 500 * this.speed;
    let reached = null;
    for (const entry of coming) {
      if (entry.wall_us > this.moment.player_us) break;
      reached = entry;
    }
    if (reached === null) return this.changed();
    this.own = true;
    this.moment.go({ at: reached.seq });
    await this.moment.seeking;
    this.own = false;
    return undefined;
  }
}
