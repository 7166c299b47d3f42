// The moment that the page shows: the run and its event number, or the live end. Only this class changes the address.

import { apply } from "../fold.js";
import { Timeline } from "../tracks/timeline.js";
import { hash, LIVE, NOWHERE, PAIR, place, playedName } from "./hash.js";
import { NotPlayed } from "../lessons/play.js";
import { NoMoment } from "../source/no_moment.js";
import { source } from "../source/source.js";
import { Run } from "./run.js";

/**
 * @typedef {import("../fold.js").Entry} Entry
 * @typedef {import("../fold.js").ClusterState} ClusterState
 * @typedef {import("./hash.js").Place} Place
 * @typedef {import("./run.js").RunInfo} RunInfo
 * @typedef {{run: string, at: number | null, seq: number, at_us: number, live: boolean, state: ClusterState, first_seq: number,
 *   last_seq: number, first_us: number, last_us: number, info: RunInfo | null}} Current  `seq` is the number of `state`:
 *   while another moment is loading, the previous one.
 * @typedef {"election" | "isr" | "loss"} Kind
 * @typedef {{cluster(): ClusterState, known(): boolean, now_us(): number}} LiveEnd  The state that the page follows.
 */

/** @type {Record<Kind, string[]>} */
export const KINDS = {
  election: ["leader_established", "controller_elected", "leader_elected"],
  isr: ["isr_changed"],
  loss: ["records_lost"],
};
/** @type {Record<Kind, string>} */
const NAMES = { election: "election", isr: "ISR change", loss: "loss of records" };
/** The number of events of a kind per response. */
const LOOKED_AT = 20;
/** Whether an event counts for its kind: a truncation of records that were never committed is not a loss. @param {Kind} kind @param {Entry} entry */
const counts = (kind, entry) => kind !== "loss" || Math.max(entry.committed_at_least ?? -1, entry.below_high_watermark) > 0;
const KEPT_RUNS_MAX = 6;
/** A user who moves on within this time does not need the environment of the moment. */
const REST_MS = 80;
/** A moment that loads within this time is drawn at once; only after it the page shows that it is loading. */
const WAITS_MS = 60;
const PATIENCE_MS = 10_000;

/** A place without the name of a run to play. */
const UNPLAYED = { scenario: null, seed: null, bug: null };

export class Moment {
  /**
   * @param {() => import("../sentences.js").Table} sentences
   * @param {LiveEnd} end @param {() => void} changed draws the page again @param {() => void} shown draws it in the next frame
   * @param {(id: string) => string | null} tabOf the tab with the element of that id; null if it is on every tab
   * @param {(scenario: string, seed: number | null) => Promise<import("../lessons/play.js").Kept>} play runs a scenario
   */
  constructor(sentences, end, changed, shown, tabOf, play) {
    this.end = end;
    this.play = play;
    /** What is being played for a link; empty if nothing is. */
    this.playing = "";
    this.changed = changed;
    this.shown = shown;
    this.tabOf = tabOf;
    /** @type {string | null} An element to scroll to once it is drawn. */
    this.anchor = null;
    this.place = this.#placeIn(location.hash) ?? this.#opening;
    /** @type {RunInfo[]} */
    this.runs = [];
    /** Why the last request of the user failed. */
    this.trouble = "";
    this.busy = false;
    /** @type {{run: string, seq: number, at_us: number, state: ClusterState, info: RunInfo} | null} The past moment that is shown. */
    this.past = null;
    /** @type {{seq: number, state: ClusterState} | null} The pinned moment of the run. */
    this.pinned = null;
    /** @type {Map<string, Run>} */
    this.kept = new Map();
    /** @type {((current: Current) => void)[]} */
    this.heard = [];
    /** The position of playback between two events; null without playback. @type {number | null} */
    this.player_us = null;
    /** @type {import("../tracks/timeline.js").Timeline} The visible time range, and the histories that are drawn. */
    this.timeline = new Timeline(this, sentences, changed);
    /** @type {number | null} The moment before the jump to the pinned one. */
    this.swapped = null;
    /** @type {number | null} The position of a drag, while the moment before it is still loading. */
    this.scrubbed = null;
    /** @type {Promise<void>} Steps are executed one at a time, however fast they are requested. */
    this.turn = Promise.resolve();
    this.wish = 0;
    /** How long a moment may load before the page reports a failure. */
    this.patience_ms = PATIENCE_MS;
    /** Cancels loading of a moment that is not needed. */
    this.waits = new AbortController();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.resting = undefined;
    /** Whether the user has stayed at the moment, so that its environment can be loaded. */
    this.rested = true;
    addEventListener("hashchange", () => this.#addressChanged());
    void this.readRuns();
    if (this.#placeIn(location.hash) === null) this.#anchor(location.hash.slice(1));
    else this.#follow(NOWHERE);
  }

  /** The place of an address without one. @returns {Place} */
  get #opening() {
    return { ...NOWHERE, ...source().opening };
  }

  /** The place in a hash; null if the hash is an anchor. Without a live cluster, the first run stands for it. @param {string} text @returns {Place | null} */
  #placeIn(text) {
    if (text.length <= 1) return this.#opening;
    const found = place(text);
    return found !== null && found.run === LIVE ? { ...found, run: this.#opening.run } : found;
  }

  /** The moment that is shown. @returns {Current} */
  current() {
    const live = this.#info(LIVE);
    if (this.past === null) {
      const state = this.end.cluster();
      return {
        run: LIVE, at: null, seq: state.seq, at_us: state.at_us, live: true, state, first_seq: live?.first_seq ?? state.seq,
        last_seq: state.seq, first_us: live?.first_us ?? state.at_us, last_us: Math.max(this.end.now_us(), state.at_us), info: live,
      };
    }
    const { seq, at_us, state, info } = this.past;
    const ongoing = this.past.run === LIVE;
    const end = this.end.cluster();
    return {
      run: this.past.run, at: seq, seq, at_us, live: false, state, first_seq: info.first_seq,
      last_seq: ongoing ? Math.max(end.seq, info.last_seq) : info.last_seq, first_us: info.first_us,
      last_us: ongoing ? Math.max(this.end.now_us(), end.at_us) : info.last_us, info,
    };
  }

  /** Whether actions on the cluster are possible: the page shows the live cluster, now. */
  get live() {
    return this.past === null && !this.busy;
  }

  /** @param {(current: Current) => void} heard called for every new moment; live, only at the change to and from live */
  subscribe(heard) {
    this.heard.push(heard);
    return () => {
      this.heard = this.heard.filter((each) => each !== heard);
    };
  }

  /**
   * Change the place; properties that are not given stay. Another run begins at its end, unless `at` is given too.
   * @param {Partial<Place>} wanted
   */
  go(wanted) {
    const before = this.place;
    const other = wanted.run !== undefined && wanted.run !== before.run;
    this.place = { ...before, ...(other ? { at: null, pin: null } : {}), ...UNPLAYED, ...wanted };
    const address = hash(this.place) || location.pathname + location.search;
    // A history entry for every moment would hide the way back; tabs and runs are worth an entry.
    const turned = this.place.tab !== before.tab || this.place.run !== before.run || (before.at === null) !== (this.place.at === null);
    if (turned) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
    this.#follow(before);
  }

  /** Go to a number while many follow each other fast: only the last one counts. @param {number} seq */
  scrub(seq) {
    const waits = this.scrubbed !== null;
    this.scrubbed = seq;
    if (waits) return;
    const next = async () => {
      try {
        while (this.scrubbed !== null) {
          const goal = this.scrubbed;
          this.go({ at: goal });
          await this.seeking;
          if (this.scrubbed === goal) this.scrubbed = null;
        }
      } finally {
        this.scrubbed = null;
      }
    };
    void next();
  }

  /** Go to the first stored moment. The live run's oldest events are removed over time, so request it again. */
  async first() {
    const id = this.current().run;
    try {
      const found = await this.run(id).info();
      this.#know(found);
      if (this.current().run === id) this.go({ run: id, at: found.first_seq });
    } catch (reason) {
      this.#tell(reason);
    }
  }

  /** Go to the live end, or to the end of the run if there is no live cluster. */
  toEnd() {
    this.go(source().live ? { run: LIVE, at: null } : { at: null });
  }

  /** Pin the moment that is shown, or unpin the pinned one. */
  pin() {
    this.go({ pin: this.place.pin === null ? this.current().seq : null });
  }

  /** Go to the pinned moment, or from there back. */
  swap() {
    const { pin, at } = this.place;
    if (pin === null) return;
    const here = at === pin;
    this.go({ at: here ? this.swapped : pin });
    if (!here) this.swapped = at;
  }

  /** The link to the moment, with its number also at the live end. */
  link() {
    const { seq } = this.current();
    return location.href.replace(/#.*/, "") + this.#portable({ ...this.place, at: seq });
  }

  /** The hash of a place; of a scenario or seed, one that works on any installation. @param {Place} of */
  #portable(of) {
    const info = this.#info(of.run);
    if (info === null || !info.link) return hash(of);
    const { pair } = info;
    const rest = hash({ ...of, run: LIVE, with: of.with === null ? null : of.with === pair ? PAIR : of.with }).replace(/^#(run=live&)?/, "&");
    return `#${info.link}${rest.replace(/^&$/, "")}`;
  }

  /** The run of that id. @param {string} id @returns {Run} */
  run(id = this.place.run) {
    const kept = this.kept.get(id) ?? new Run(id);
    this.kept.delete(id);
    this.kept.set(id, kept);
    for (const old of this.kept.keys()) if (this.kept.size > KEPT_RUNS_MAX) this.kept.delete(old);
    return kept;
  }

  /** Events of the run. @param {number} from @param {number} to included @returns {Promise<Entry[]>} Raises NoMoment. */
  entries(from, to) {
    return this.run(this.current().run).entries(from, Math.min(to, this.current().last_seq));
  }

  /** Go to the next or previous event, starting from the newest at the live end. @param {1 | -1} by @returns {Promise<void>} */
  step(by) {
    this.turn = this.turn.then(() => this.#step(by)).catch((reason) => this.#tell(reason));
    return this.turn;
  }

  /** @param {1 | -1} by */
  async #step(by) {
    const { run, seq, first_seq, last_seq, live } = await this.#described();
    if (live && by > 0) return;
    const goal = seq + by;
    if (goal < first_seq || goal > last_seq) return;
    // Numbers may have gaps for unreadable lines of an old file.
    const near = await this.run(run).entries(by > 0 ? goal : Math.max(first_seq, goal - 20), by > 0 ? Math.min(last_seq, goal + 20) : goal);
    const found = by > 0 ? near[0] : near.at(-1);
    if (found === undefined) return;
    this.go({ at: found.seq });
    await this.seeking;
  }

  /** Go to the next event of a kind, or to the previous one. @param {Kind} kind @param {1 | -1} by @returns {Promise<void>} */
  next(kind, by = 1) {
    this.turn = this.turn.then(() => this.#next(kind, by)).catch((reason) => this.#tell(reason));
    return this.turn;
  }

  /** @param {Kind} kind @param {1 | -1} by */
  async #next(kind, by) {
    const { run, seq, live, first_seq, last_seq } = await this.#described();
    // There is no later event at the live end: use the newest of the kind.
    const found = by > 0 && !live ? await this.#firstOf(kind, run, seq, last_seq) : await this.#lastOf(kind, run, live ? seq : seq - 1, first_seq);
    if (found !== null) {
      this.go({ at: found.seq });
      await this.seeking;
    } else {
      this.trouble = `There is no ${by > 0 ? "later" : "earlier"} ${NAMES[kind]}.`;
      this.changed();
    }
  }

  /** The first event of a kind after a number. @param {Kind} kind @param {string} run @param {number} after @param {number} last_seq @returns {Promise<Entry | null>} */
  async #firstOf(kind, run, after, last_seq) {
    for (;;) {
      const { entries, through } = await source().events(run, { after, types: KINDS[kind], limit: LOOKED_AT });
      const found = entries.find((entry) => counts(kind, entry));
      if (found) return found;
      const looked = entries.length === LOOKED_AT ? entries[LOOKED_AT - 1].seq : through;
      if (!(looked > after) || looked >= last_seq) return null;
      after = looked;
    }
  }

  /** The last event of a kind up to a number. @param {Kind} kind @param {string} run @param {number} until @param {number} first_seq @returns {Promise<Entry | null>} */
  async #lastOf(kind, run, until, first_seq) {
    for (;;) {
      const { entries, through } = await source().events(run, { until, types: KINDS[kind], limit: LOOKED_AT });
      const found = entries.findLast((entry) => counts(kind, entry));
      if (found) return found;
      const looked = entries.length === LOOKED_AT ? entries[0].seq : through;
      if (!(looked > first_seq) || looked > until) return null;
      until = looked - 1;
    }
  }

  /** The moment with the description of its run: a key may be pressed before the page has it. Raises NoMoment. */
  async #described() {
    const info = await this.#infoOf(this.current().run);
    const current = this.current();
    if (!current.live || info.id !== current.run) return current;
    const last_seq = this.end.known() ? current.seq : info.last_seq;
    return { ...current, seq: last_seq, first_seq: info.first_seq, last_seq };
  }

  /** The live run's numbers have a gap or start again: all its data may be outdated. */
  forgetLive() {
    this.kept.delete(LIVE);
    this.timeline.forget();
    void this.readRuns();
    if (this.place.run !== LIVE) return;
    if (this.place.pin !== null) this.seekingPin = this.#seekPin();
    if (this.past !== null && this.place.at !== null) this.seeking = this.#seek();
  }

  /** Show a sentence without its full stop as a problem. @param {string} reason */
  report(reason) {
    this.trouble = `${reason}.`;
    this.shown();
  }

  /** Read the list of runs. */
  async readRuns() {
    try {
      this.runs = await source().runs();
    } catch {
      this.runs = [];
    }
    this.changed();
  }

  /** The entry of the moment, if its page is loaded. @returns {Entry | null} */
  entry() {
    const { run, seq, live } = this.current();
    return live ? null : this.run(run).kept(seq, seq)?.[0] ?? null;
  }

  /** @param {string} id @returns {RunInfo | null} */
  #info(id) {
    return this.runs.find((run) => run.id === id) ?? null;
  }

  #addressChanged() {
    const before = this.place;
    const found = this.#placeIn(location.hash);
    if (found === null) this.#anchor(location.hash.slice(1));
    else {
      this.place = found;
      this.#follow(before);
    }
  }

  /** Follow a link within the page: it leads to a panel, on any tab, and does not change the moment. @param {string} id */
  #anchor(id) {
    const tab = this.tabOf(id);
    const before = this.place;
    this.place = { ...before, tab: tab ?? before.tab };
    history.replaceState(null, "", hash(this.place) || location.pathname + location.search);
    this.anchor = id;
    this.#follow(before);
  }

  /** Show the place in the address. @param {Place} before */
  #follow(before) {
    const { run, at, pin } = this.place;
    this.trouble = "";
    if (pin !== before.pin || run !== before.run) this.seekingPin = this.#seekPin();
    if (this.place.scenario !== null) {
      void this.#playLinked(this.place, this.place.scenario);
    } else if (run === LIVE && at === null) {
      this.wish += 1;
      this.waits.abort();
      clearTimeout(this.resting);
      this.past = null;
      this.busy = false;
      this.#told();
    } else if (run !== before.run || at !== before.at) {
      this.seeking = this.#seek();
      if (this.place.tab !== before.tab) this.changed();
      else setTimeout(this.changed, WAITS_MS);
      return;
    }
    this.shown();
  }

  /** Show the run that a link names, which is played if it is not stored. @param {Place} wanted @param {string} scenario */
  async #playLinked(wanted, scenario) {
    this.playing = scenario;
    const known = () => this.runs.find((each) => each.link === playedName(wanted));
    try {
      if (known() === undefined) await this.readRuns();
      if (known() === undefined) {
        await this.play(scenario, wanted.seed);
        await this.readRuns();
      }
      if (this.place !== wanted) return;
      const run = known();
      if (run === undefined) throw new NoMoment(`${scenario} has no such run`);
      this.playing = "";
      const place = { ...wanted, ...UNPLAYED, run: run.id, with: wanted.with === PAIR ? run.pair : null };
      history.replaceState(null, "", hash(place));
      this.place = place;
      this.#follow(NOWHERE);
    } catch (reason) {
      if (this.place !== wanted) return;
      this.playing = "";
      this.#tell(reason);
    }
  }

  async #seek() {
    const wish = (this.wish += 1);
    const { run: id, at } = this.place;
    this.waits.abort();
    const waits = (this.waits = new AbortController());
    const late = setTimeout(() => waits.abort(new NoMoment(`the API has not responded for ${this.patience_ms / 1000} s`)), this.patience_ms);
    clearTimeout(this.resting);
    this.rested = false;
    this.busy = true;
    const run = this.run(id);
    try {
      const info = await this.#infoOf(id, waits.signal);
      const last = id === LIVE ? Math.max(this.end.cluster().seq, info.last_seq) : info.last_seq;
      const seq = at ?? last;
      if (wish !== this.wish) return;
      const here = this.#steppedTo(id, seq) ?? run.foldedHere(seq);
      const state = here ?? (await run.stateAt(seq, waits.signal));
      if (wish !== this.wish) return;
      this.past = { run: id, seq: state.seq, at_us: state.at_us, state, info };
      this.busy = false;
      this.#told();
      this.shown();
      // Load the data for steps afterwards, and draw the page again: the list of events waits for it.
      const prepare = () => {
        this.rested = true;
        void run.prepare(seq, info.first_seq, last).then(this.changed, () => undefined);
      };
      if (here !== null) prepare();
      else this.resting = setTimeout(prepare, REST_MS);
    } catch (reason) {
      if (wish === this.wish) this.#tell(reason);
    } finally {
      clearTimeout(late);
    }
  }

  async #seekPin() {
    const { pin, run } = this.place;
    this.pinned = null;
    if (pin === null) return;
    try {
      const state = await this.run(run).stateAt(pin);
      if (this.place.pin === pin && this.place.run === run) this.pinned = { seq: pin, state };
    } catch (reason) {
      if (this.place.pin === pin && this.place.run === run) this.#tell(reason);
    }
    this.changed();
  }

  /** The state after the event that follows the shown one. @param {string} run @param {number} seq */
  #steppedTo(run, seq) {
    const past = this.past;
    if (past === null || past.run !== run || seq !== past.seq + 1) return null;
    const entry = this.run(run).kept(seq, seq)?.[0];
    if (entry === undefined) return null;
    const state = structuredClone(past.state);
    apply(state, entry);
    return state;
  }

  /** @param {string} id @param {AbortSignal | null} signal @returns {Promise<RunInfo>} */
  async #infoOf(id, signal = null) {
    const known = this.#info(id);
    if (known !== null) return known;
    const found = await this.run(id).info(signal);
    this.#know(found);
    return found;
  }

  /** Add or replace the description of a run. @param {RunInfo} found */
  #know(found) {
    const known = this.runs.some((each) => each.id === found.id);
    this.runs = known ? this.runs.map((each) => (each.id === found.id ? found : each)) : [...this.runs, found];
  }

  #told() {
    const current = this.current();
    for (const listener of this.heard) listener(current);
  }

  /** Stop loading and show the error, whatever failed. @param {unknown} reason */
  #tell(reason) {
    this.busy = false;
    if (reason instanceof NoMoment && reason.oldest !== null) this.#thinned(reason.oldest);
    const trouble = `This moment cannot be shown: ${reason instanceof Error ? reason.message : reason}.`;
    if (!source().live && this.past === null && this.place.at !== null) {
      // An address from another file: without a live state, show the end of the run.
      this.go({ run: this.#opening.run, at: null });
    }
    this.trouble = trouble;
    this.shown();
    // Unexpected errors are reported in the console as well.
    if (!(reason instanceof NoMoment || reason instanceof NotPlayed)) reportError(reason);
  }

  /** The oldest events of the run were removed. @param {number} oldest */
  #thinned(oldest) {
    this.runs = this.runs.map((each) => (each.id === this.place.run ? { ...each, first_seq: Math.max(each.first_seq, oldest) } : each));
  }
}
