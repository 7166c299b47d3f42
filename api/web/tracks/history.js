// The part of a run in the tracks: its events without mere progress, folded into spans. For the live run it grows with
// the stream; older parts are read on demand.

import { emptyState } from "../fold.js";
import { progressTypes } from "../sentences.js";
import { NoMoment } from "../source/no_moment.js";
import { source } from "../source/source.js";
import { olderLanes } from "./older.js";
import { Spans } from "./spans.js";

/**
 * @typedef {import("../fold.js").Entry} Entry
 * @typedef {import("../sentences.js").Table} Table
 * @typedef {{at_us: number, seq: number}} Place
 */

/** The number of events per request, and the limit of stored events, which is the limit of one response. */
const FIRST = 600;
const MORE = 4000;
const EVENTS_MAX = 100_000;
const RETRY_MS = 5_000;
const BINS = 2_000;
/** The lanes of merged spans. */
const LANES = ["controller", "belief", "isr", "peer", "group"];
/** Number of events to fold before other tasks run: a few milliseconds. */
const BATCH = 300;
// The rates are computed from these events, one per second.
const COUNTERS = new Set(["workload_progressed", "consumer_progressed"]);

/** The types that no track shows. @param {Table} table */
export const unseenTypes = (table) => progressTypes(table).filter((type) => !COUNTERS.has(type));

/** Add the next event of a history; known events are skipped. @param {Spans} spans @param {Entry[]} events @param {Place[]} places @param {Entry} entry */
function addTo(spans, events, places, entry) {
  if (entry.seq <= spans.seq) return;
  spans.take(entry);
  events.push(entry);
  places.push({ at_us: spans.state.at_us, seq: entry.seq });
}

export class History {
  /** @param {string} run @param {() => void} changed @param {number} events_max */
  constructor(run, changed, events_max = EVENTS_MAX) {
    this.run = run;
    this.events_max = events_max;
    this.changed = changed;
    /** @type {Spans | null} */
    this.spans = null;
    /** @type {Entry[]} */
    this.events = [];
    /** @type {Place[]} The events and the folded clock at each: the clocks of simulated nodes differ. */
    this.places = [];
    /** @type {Entry[]} Events of the stream that arrived before the beginning was loaded. */
    this.waiting = [];
    this.busy = false;
    /** Events before this time are not loaded, and their spans are merged by bins; 0 if every event is loaded. */
    this.merged_us = 0;
    /** All visible events from this number on are loaded. The number itself may be of a progress event. */
    this.begins = 0;
    /** Whether the loaded part begins with the first stored number. */
    this.whole = false;
    this.trouble = "";
    /** No request is repeated before this time. */
    this.rests_until_ms = 0;
    /** The oldest stored number, as far as the API has reported it. */
    this.oldest = 0;
  }

  /** Wait after a failure before the next request. */
  get rests() {
    return performance.now() < this.rests_until_ms;
  }

  /** Whether the stream has delivered so much that the history should restart with the latest part. */
  get overgrown() {
    return this.events.length >= 2 * this.events_max;
  }

  /** Live run: add the next event of the stream. @param {Entry} entry @param {Set<string>} unseen */
  take(entry, unseen) {
    if (unseen.has(entry.type)) return;
    if (this.busy) this.waiting.push(entry);
    else this.#add(entry);
  }

  /** @param {Entry} entry */
  #add(entry) {
    if (this.spans !== null) addTo(this.spans, this.events, this.places, entry);
  }

  /**
   * Begin with the last events of the run, or with all of them if the run is over and they are not too many.
   * @param {number} first_seq the oldest stored number @param {number} last_seq @param {string[]} unseen
   */
  async begin(first_seq, last_seq, unseen) {
    await this.#read(first_seq, last_seq, this.run === "live" ? FIRST : this.events_max, unseen);
  }

  /** Load older events. @param {number} first_seq @param {string[]} unseen */
  async older(first_seq, unseen) {
    if (this.busy || this.rests || this.whole || this.spans === null) return;
    if (this.events.length >= this.events_max) {
      await this.#merge(this.spans);
      return;
    }
    await this.#read(first_seq, this.begins - 1, MORE, unseen);
  }

  /** Load the time before the loaded events as spans. @param {Spans} spans */
  async #merge(spans) {
    this.busy = true;
    try {
      const until_us = spans.first_us;
      const { first_us, lanes } = await source().spans(this.run, BINS, LANES, until_us);
      for (const [lane, older] of olderLanes(lanes, until_us)) spans.lanes.set(lane, [...older, ...(spans.lanes.get(lane) ?? [])]);
      spans.first_us = first_us;
      spans.version += 1;
      [this.merged_us, this.whole, this.trouble] = [until_us, true, ""];
    } catch (reason) {
      this.#fail(reason);
    }
    this.#goOn();
  }

  /** @param {unknown} reason */
  #fail(reason) {
    this.trouble = reason instanceof Error ? reason.message : String(reason);
    this.rests_until_ms = performance.now() + RETRY_MS;
    setTimeout(this.changed, RETRY_MS + 1);
    if (reason instanceof NoMoment && reason.oldest !== null) this.oldest = reason.oldest;
  }

  /** Add the events that arrived meanwhile. */
  #goOn() {
    this.busy = false;
    const waiting = this.waiting;
    this.waiting = [];
    if (this.spans !== null) for (const entry of waiting) this.#add(entry);
    this.changed();
  }

  /** @param {number} first_seq @param {number} until @param {number} limit @param {string[]} unseen */
  async #read(first_seq, until, limit, unseen) {
    first_seq = Math.max(first_seq, this.oldest);
    this.busy = true;
    try {
      const { entries, through } = await source().events(this.run, { until, limit, not_types: unseen });
      if (this.spans !== null && until < this.begins && (through > until || until < first_seq)) {
        // No older events are stored any longer. Keep the loaded ones: a later state would not be the state at their
        // beginning.
        [this.whole, this.trouble] = [true, ""];
        this.#goOn();
        return;
      }
      const begin = entries.length < limit ? Math.max(first_seq, through) : entries[0].seq;
      const before = begin <= 1 ? emptyState() : await source().state(this.run, begin - 1);
      await this.#fold(before, [...entries, ...this.events]);
      this.begins = begin;
      this.whole = begin <= first_seq;
      this.trouble = "";
    } catch (reason) {
      this.#fail(reason);
    }
    this.#goOn();
  }

  /** Fold in batches, so that other tasks run between them. @param {import("../fold.js").ClusterState} before @param {Entry[]} events */
  async #fold(before, events) {
    const spans = new Spans(before);
    /** @type {[Entry[], Place[]]} */
    const [taken, places] = [[], []];
    for (const [i, entry] of events.entries()) {
      if (i % BATCH === BATCH - 1) await new Promise((resolve) => setTimeout(resolve));
      addTo(spans, taken, places, entry);
    }
    [this.spans, this.events, this.places] = [spans, taken, places];
  }

  /** The last event up to a moment. @param {number} at_us @returns {Place | null} */
  placeAt(at_us) {
    let [low, high] = [0, this.places.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.places[middle].at_us <= at_us) low = middle + 1;
      else high = middle;
    }
    return this.places[low - 1] ?? null;
  }

  /** The time of an event on the tracks' clock; null if it is not loaded. @param {number} seq */
  timeOf(seq) {
    let [low, high] = [0, this.places.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.places[middle].seq <= seq) low = middle + 1;
      else high = middle;
    }
    return this.places[low - 1]?.at_us ?? null;
  }
}
