// Reads one run of the time machine: its events in pages, which are cached, and its folded state at a number.

import { apply, emptyState } from "../fold.js";
import { NoMoment } from "../source/no_moment.js";
import { source } from "../source/source.js";

/**
 * @typedef {import("../fold.js").Entry} Entry
 * @typedef {import("../fold.js").ClusterState} ClusterState
 * @typedef {{id: string, kind: string, title: string, of: string | null, pair: string | null, first_seq: number, last_seq: number,
 *   first_us: number, last_us: number, events: number, messages: boolean, verdict: string | null, replay: string | null, created_ms: number,
 *   decisive_seq?: number | null, variant?: string | null, link?: string | null, origin?: {changes: {at_us: number, from_start: boolean}[]} | null}} RunInfo  `variant`
 *   is how the run differs from its scenario; `link` names it on any installation; `origin` is the seed and the changes of a run that can be forked.
 * @typedef {{entries: Entry[], until: number}} Page  All events up to the number `until`, from the page's first number on.
 */

/** Whether a run, which is a seed's or a fork, can be forked. @param {RunInfo | null} info */
export const forkable = (info) => info?.kind === "seed" && info.origin != null;

/** Numbers per page. */
export const PAGE = 500;
/** This close to the next page, the user is likely to step into it. */
const NEAR = 60;
const PAGES_MAX = 60;
const STORY_PAGE = 20_000;

/**
 * A run's events without some types, from the first on, page by page.
 * @param {string} id @param {string[]} not_types @param {number} max stop after this many
 * @returns {Promise<{entries: Entry[], first_seq: number, whole: boolean}>} `first_seq` is the oldest stored number; `whole` if these
 *   are all events.  Raises NoMoment.
 */
export async function readStory(id, not_types, max) {
  const { first_seq, last_seq } = await source().info(id);
  const entries = [];
  // After 0 the API begins with the oldest stored event, without a sign that earlier ones were removed.
  let after = first_seq - 1;
  while (after < last_seq && entries.length < max) {
    const found = await source().events(id, { after, limit: Math.min(STORY_PAGE, max - entries.length), not_types });
    entries.push(...found.entries);
    const { through } = found;
    if (!(through > after)) break;
    after = through;
  }
  return { entries, first_seq, whole: after >= last_seq };
}

/** One run. The last page of the live run grows. */
export class Run {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
    /** @type {Map<number, Page>} */
    this.pages = new Map();
    /** @type {Map<number, Promise<Page>>} */
    this.asked = new Map();
    /** @type {Map<number, ClusterState>} States at the ends of pages, by the following page. */
    this.states = new Map();
  }

  /** @param {AbortSignal | null} signal @returns {Promise<RunInfo>} Raises NoMoment. */
  info(signal = null) {
    return source().info(this.id, signal);
  }

  /**
   * The events from one number to another, both included, in order.
   * @param {number} from @param {number} to @returns {Promise<Entry[]>} Raises NoMoment.
   */
  async entries(from, to) {
    const numbers = [];
    for (let page = pageOf(Math.max(1, from)); page <= pageOf(Math.max(1, to)); page += 1) numbers.push(page);
    const pages = await Promise.all(numbers.map((page) => this.page(page, to)));
    return pages.flatMap((page) => page.entries).filter((entry) => entry.seq >= from && entry.seq <= to);
  }

  /** The events from one number to another, if they are loaded. @param {number} from @param {number} to @returns {Entry[] | null} */
  kept(from, to) {
    const found = [];
    for (let page = pageOf(Math.max(1, from)); page <= pageOf(Math.max(1, to)); page += 1) {
      const kept = this.pages.get(page);
      if (kept === undefined || kept.until < Math.min(to, (page + 1) * PAGE)) return null;
      found.push(...kept.entries);
    }
    return found.filter((entry) => entry.seq >= from && entry.seq <= to);
  }

  /** @param {number} page @param {number} to the last number that is needed @returns {Promise<Page>} */
  async page(page, to) {
    const end = (page + 1) * PAGE;
    const kept = this.pages.get(page);
    if (kept && kept.until >= Math.min(to, end)) return kept;
    const under_way = this.asked.get(page);
    if (under_way) {
      const found = await under_way;
      return found.until >= Math.min(to, end) ? found : this.page(page, to);
    }
    const asked = this.#fetch(page, to);
    this.asked.set(page, asked);
    try {
      return await asked;
    } finally {
      this.asked.delete(page);
    }
  }

  /** @param {number} page @param {number} to */
  async #fetch(page, to) {
    const [begin, end] = [page * PAGE, (page + 1) * PAGE];
    const { entries } = await source().events(this.id, { after: begin, until: end, limit: PAGE });
    // After 0 the API returns the stored events, without a sign that earlier ones were removed.
    if (begin === 0 && to >= 1 && entries[0]?.seq !== 1) {
      const { first_seq } = await this.info();
      throw new NoMoment(`the oldest stored event is ${first_seq}`, first_seq);
    }
    const found = { entries, until: Math.max(entries.at(-1)?.seq ?? begin, Math.min(to, end)) };
    this.pages.delete(page);
    this.pages.set(page, found);
    for (const old of this.pages.keys()) if (this.pages.size > PAGES_MAX) this.pages.delete(old);
    return found;
  }

  /**
   * The folded state at a number: computed from a loaded page, otherwise from the API.
   * @param {number} seq @param {AbortSignal | null} signal @returns {Promise<ClusterState>} Raises NoMoment.
   */
  async stateAt(seq, signal = null) {
    const here = this.foldedHere(seq);
    if (here !== null) return here;
    const found = await source().state(this.id, seq, signal);
    if (seq % PAGE === 0) this.#keepState(seq / PAGE, found);
    return found;
  }

  /** The state at a number, if its page and the state before it are loaded. @param {number} seq @returns {ClusterState | null} */
  foldedHere(seq) {
    const page = pageOf(seq);
    const [before, events] = [this.states.get(page), this.kept(page * PAGE + 1, seq)];
    if (before === undefined || events === null) return null;
    const state = structuredClone(before);
    for (const entry of events) apply(state, entry);
    return state;
  }

  /**
   * Load the data for steps around a number: its page, the next one if it is close, and the states before them.
   * @param {number} seq @param {number} first the first stored number @param {number} last the last number
   */
  async prepare(seq, first, last) {
    const near = [seq, seq - NEAR, seq + NEAR].map((each) => pageOf(Math.min(Math.max(each, first), last)));
    await Promise.all([...new Set(near)].map((page) => this.#preparePage(page, first, last)));
  }

  /** @param {number} page @param {number} first @param {number} last */
  async #preparePage(page, first, last) {
    const events = this.page(page, Math.min(last, (page + 1) * PAGE));
    if (!this.states.has(page) && page * PAGE + 1 >= first) {
      this.#keepState(page, page === 0 ? emptyState() : await source().state(this.id, page * PAGE));
    }
    await events;
  }

  /** @param {number} page @param {ClusterState} state */
  #keepState(page, state) {
    this.states.delete(page);
    this.states.set(page, state);
    for (const old of this.states.keys()) if (this.states.size > PAGES_MAX) this.states.delete(old);
  }
}

/** The page of a number: numbers begin with 1, and a page ends with a multiple of its size. @param {number} seq */
export const pageOf = (seq) => Math.max(0, Math.ceil(seq / PAGE) - 1);
