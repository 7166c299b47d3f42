// The part of a run that the tracks are drawn of: its events but for mere progress, folded into spans.  Of the live run it
// grows with the stream; further back it is read when somebody looks there.

import { emptyState } from "../fold.js";
import { progressTypes } from "../sentences.js";
import { NoMoment, read, readEvents } from "../time/run.js";
import { olderLanes } from "./older.js";
import { Spans } from "./spans.js";

/**
 * @typedef {import("../fold.js").Entry} Entry
 * @typedef {import("../sentences.js").Table} Table
 * @typedef {{at_us: number, seq: number}} Place
 */

/** How many events are asked for at once, and how many at most are kept, which is as many as one answer holds. */
const FIRST = 600;
const MORE = 4000;
const EVENTS_MAX = 100_000;
const RETRY_MS = 5_000;
const BINS = 2_000;
/** So many are folded before others have their turn: a few milliseconds. */
const BATCH = 300;
// The rates are made of these, one a second.
const COUNTERS = new Set(["workload_progressed", "consumer_progressed"]);

/** The types whose events no track shows. @param {Table} table */
export const unseenTypes = (table) => progressTypes(table).filter((type) => !COUNTERS.has(type));

/** The next event of a history; one that is there already is passed over. @param {Spans} spans @param {Entry[]} events @param {Place[]} places @param {Entry} entry */
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
    /** @type {Place[]} The events and the folded clock at each: simulated nodes' own clocks differ. */
    this.places = [];
    /** @type {Entry[]} What the stream told while the beginning was still asked for. */
    this.waiting = [];
    this.busy = false;
    /** Before it events are not read, and spans of one bin are merged; 0 where every event is here. */
    this.merged_us = 0;
    /** From this number on everything is here that is to be seen; there may be no event of it, but progress alone. */
    this.begins = 0;
    /** Whether what is here begins with the first number that is kept. */
    this.whole = false;
    this.trouble = "";
    /** Until then nothing is asked for again. */
    this.rests_until_ms = 0;
    /** The oldest number that is kept, as far as the API has said so. */
    this.oldest = 0;
  }

  /** After a failure it is not asked again at once. */
  get rests() {
    return performance.now() < this.rests_until_ms;
  }

  /** Whether the stream has brought so much that it had better begin anew with the last of it. */
  get overgrown() {
    return this.events.length >= 2 * this.events_max;
  }

  /** Of the live run: the next event of the stream. @param {Entry} entry @param {Set<string>} unseen */
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
   * Begin, with the last events of the run; of a run that is over, with all of them, if they are not too many.
   * @param {number} first_seq the oldest number that is kept @param {number} last_seq @param {string[]} unseen
   */
  async begin(first_seq, last_seq, unseen) {
    await this.#read(first_seq, last_seq, this.run === "live" ? FIRST : this.events_max, unseen);
  }

  /** Go further back. @param {number} first_seq @param {string[]} unseen */
  async older(first_seq, unseen) {
    if (this.busy || this.rests || this.whole || this.spans === null) return;
    if (this.events.length >= this.events_max) {
      await this.#merge(this.spans);
      return;
    }
    await this.#read(first_seq, this.begins - 1, MORE, unseen);
  }

  /** What came before the events that are here, as spans. @param {Spans} spans */
  async #merge(spans) {
    this.busy = true;
    try {
      const until_us = spans.first_us;
      const { first_us, lanes } = await read(`/runs/${this.run}/spans?to=${until_us}&bins=${BINS}&lanes=controller,belief,isr,peer`);
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

  /** What was told meanwhile comes behind. */
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
      const { entries, through } = await readEvents(this.run, `until=${until}&limit=${limit}&not_types=${unseen.join(",")}`);
      if (this.spans !== null && until < this.begins && (through > until || until < first_seq)) {
        // Nothing older is kept any more.  What is here stays; a state of later than it began would be none of its beginning.
        [this.whole, this.trouble] = [true, ""];
        this.#goOn();
        return;
      }
      const begin = entries.length < limit ? Math.max(first_seq, through) : entries[0].seq;
      const before = begin <= 1 ? emptyState() : (await read(`/runs/${this.run}/state?at=${begin - 1}`)).state;
      await this.#fold(before, [...entries, ...this.events]);
      this.begins = begin;
      this.whole = begin <= first_seq;
      this.trouble = "";
    } catch (reason) {
      this.#fail(reason);
    }
    this.#goOn();
  }

  /** Batch by batch, so that others have their turn between them. @param {import("../fold.js").ClusterState} before @param {Entry[]} events */
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

  /** When the event of a number was, on the tracks' clock; null where it is not here. @param {number} seq */
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
