// Runs from the file that contains the page. `api/exports/contents.py` writes them, together with what only the server
// can compute: causes, rules, the first difference of two runs, and answers to lessons.

import { apply, emptyState } from "../fold.js";
import { parseExact } from "../json.js";
import { sentence } from "../sentences.js";
import { playedName, TABS } from "../time/hash.js";
import { NoMoment } from "./no_moment.js";
import { unpacked } from "./packed.js";

/**
 * @typedef {import("./source.js").Source} Source
 * @typedef {import("./source.js").Entry} Entry
 * @typedef {import("./source.js").ClusterState} ClusterState
 * @typedef {import("./source.js").RunInfo} RunInfo
 * @typedef {import("../messages/words.js").Message} Message
 * @typedef {import("../why/panel.js").Step} Step
 * @typedef {[number, NonNullable<Step["end"]>, string]} End  The last event of a chain, its kind, and its reference.
 * @typedef {{back: number[], rules: number[], ends: End[], chains: [number, number[]][],
 *   gaps: [number, NonNullable<Step["controller_gap"]>][]}} Causes  `back` has for each event how many numbers earlier its
 *   cause is, 0 for none; `rules` the place of its rule plus one; `chains` the chains that `back` does not give.
 * @typedef {{about: RunInfo, before: ClusterState | null, events: Entry[], messages: Message[], causes: Causes,
 *   incidents: import("./source.js").Incident[], spans: import("./source.js").SpansView | null}} Recorded  `before` is the state before the first event.
 * @typedef {{opening: Partial<import("../time/hash.js").Place>, sentences: import("../sentences.js").Table,
 *   rules: NonNullable<Step["rule"]>[], runs: Recorded[], divergences: [string, string, import("../compare/tab.js").Divergence][],
 *   lessons: {lesson: import("../lessons/tab.js").Lesson, answer: import("../lessons/tab.js").Revealed | null}[]}} Contents
 */

/** Number of events between two states in memory. */
const STATE_EVERY = 1000;
/** Messages that take longer are only found by their sending time, as in the API. */
const LONGEST_US = 60e6;

/** @implements {Source} */
export class EmbeddedSource {
  live = false;

  /** @param {Contents} contents */
  constructor(contents) {
    this.contents = contents;
    this.opening = contents.opening;
    this.recorded = new Map(contents.runs.map((run) => [run.about.id, new RecordedRun(run, contents)]));
  }

  get tabs() {
    const absent = ["links", "lab", ...(this.contents.lessons.length ? [] : ["lessons"]), ...(this.recorded.size > 1 ? [] : ["compare"])];
    return TABS.filter((tab) => !absent.includes(tab));
  }

  /** @param {string} packed the runs as the file contains them */
  static async unpack(packed) {
    return new EmbeddedSource(parseExact(await unpacked(packed)));
  }

  async sentences() {
    return this.contents.sentences;
  }

  async runs() {
    return [...this.recorded.values()].map((run) => run.about);
  }

  /** @param {string} run */
  async info(run) {
    return this.#found(run).about;
  }

  /** @param {string} run @param {import("./source.js").Query} query */
  async events(run, query) {
    return this.#found(run).some(query);
  }

  /** @param {string} run @param {number} seq */
  async state(run, seq) {
    return this.#found(run).state(seq);
  }

  /** @param {string} run @returns {Promise<import("./source.js").SpansView>} */
  async spans(run) {
    const { spans } = this.#found(run);
    if (spans === null) throw new NoMoment("this file does not contain the spans of the run");
    return spans;
  }

  /** @param {string} run @param {number} seq @returns {Promise<Step[]>} */
  async why(run, seq) {
    return this.#found(run).why(seq);
  }

  /** @param {string} run @param {string} other */
  async divergence(run, other) {
    for (const [a, b, found] of this.contents.divergences) {
      if (a === run && b === other) return found;
    }
    throw new NoMoment("this file does not contain the comparison of these runs");
  }

  /** @param {string} run */
  async incidents(run) {
    return this.#found(run).incidents;
  }

  /** @param {string} run @param {number} from_us @param {number} to_us @param {string[]} classes @param {number} limit */
  async messages(run, from_us, to_us, classes, limit) {
    return select(this.#found(run).messages, from_us, to_us, classes, limit);
  }

  async lessons() {
    return this.contents.lessons.map(({ lesson }) => lesson);
  }

  /** @param {string} name */
  async answer(name) {
    const found = this.contents.lessons.find(({ lesson }) => lesson.name === name);
    if (!found?.answer) throw new NoMoment(`this file does not contain the lesson ${name}`);
    return found.answer;
  }

  /** The recorded run. @param {string} scenario @param {number | null} seed */
  async play(scenario, seed) {
    const link = playedName({ scenario, seed, bug: null });
    const run = (await this.runs()).find((each) => each.link === link);
    if (run === undefined) throw new NoMoment(`this file does not contain a run of ${scenario}${seed === null ? "" : `, seed ${seed}`}`);
    return { run: run.id, bug: run.pair };
  }

  /** @returns {Promise<File>} */
  async download() {
    throw new NoMoment("this page is the downloaded file");
  }

  /** Add the runs of another exported file, under new ids where this file has runs with theirs. @param {File} file */
  async open(file) {
    const runs = new DOMParser().parseFromString(await file.text(), "text/html").getElementById("runs");
    if (runs === null) throw new NoMoment(`${file.name} is not an exported run; a page of zabka up also opens journals`);
    const other = await EmbeddedSource.unpack(runs.textContent ?? "");
    const ids = new Map([...other.recorded.keys()].map((id) => [id, this.#unused(id)]));
    const renamed = (/** @type {string} */ id) => ids.get(id) ?? id;
    for (const run of other.recorded.values()) {
      const { id, pair } = run.about;
      run.about = { ...run.about, id: renamed(id), pair: pair === null ? null : renamed(pair) };
      this.recorded.set(run.about.id, run);
    }
    for (const [a, b, found] of other.contents.divergences) this.contents.divergences.push([renamed(a), renamed(b), found]);
    return renamed(other.opening.run ?? [...other.recorded.keys()][0]);
  }

  /** The id, or if a run has it already, the id with a number. @param {string} id */
  #unused(id) {
    let unused = id;
    for (let number = 2; this.recorded.has(unused); number += 1) unused = `${id}-${number}`;
    return unused;
  }

  code() {
    return null;
  }

  /** @param {string} id @returns {RecordedRun} */
  #found(id) {
    const run = this.recorded.get(id);
    if (run === undefined) throw new NoMoment(`this file does not contain the run ${id}`);
    return run;
  }
}

/** One run of the file. */
class RecordedRun {
  /** @param {Recorded} recorded @param {Contents} contents of its file */
  constructor({ about, before, events, messages, causes, incidents, spans }, { sentences, rules }) {
    this.sentences = sentences;
    this.rules = rules;
    this.about = about;
    this.events = events;
    this.messages = messages;
    this.incidents = incidents;
    this.spans = spans;
    this.places = new Map(events.map((entry, place) => [entry.seq, place]));
    this.causes = {
      back: causes.back, rules: causes.rules, ends: new Map(causes.ends.map((end) => [end[0], end])),
      chains: new Map(causes.chains), gaps: new Map(causes.gaps),
    };
    /** @type {ClusterState[]} The states before every thousandth event. */
    this.states = [before ?? emptyState()];
  }

  /** The number of events up to a number. @param {number} seq */
  #until(seq) {
    let [low, high] = [0, this.events.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.events[middle].seq <= seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** @param {import("./source.js").Query} query @returns {import("./source.js").Found} */
  some({ after, until, types, not_types, limit }) {
    const { first_seq, last_seq } = this.about;
    const end = until === undefined ? last_seq : Math.min(until, last_seq);
    const backwards = after === undefined && until !== undefined;
    const asked = this.events.slice(backwards ? 0 : this.#until(after ?? 0), this.#until(end))
      .filter(({ type }) => (types === undefined || types.includes(type)) && !not_types?.includes(type));
    const entries = backwards ? asked.slice(-limit) : asked.slice(0, limit);
    if (entries.length === limit) return { entries, through: backwards ? entries[0].seq : entries[limit - 1].seq };
    return { entries, through: backwards ? first_seq : end };
  }

  /** The folded state at a number, of its own. @param {number} seq @returns {ClusterState} */
  state(seq) {
    const { first_seq, last_seq } = this.about;
    if (seq > last_seq) throw new NoMoment(`the last event is ${last_seq}`);
    if (seq < first_seq - 1) throw new NoMoment(`the oldest event in this file is ${first_seq}`, first_seq);
    const count = this.#until(seq);
    const known = Math.min(Math.floor(count / STATE_EVERY), this.states.length - 1);
    const state = structuredClone(this.states[known]);
    for (let place = known * STATE_EVERY; place < count; place += 1) {
      if (place === this.states.length * STATE_EVERY) this.states.push(structuredClone(state));
      apply(state, this.events[place]);
    }
    return state;
  }

  /** @param {number} seq @returns {Step[]} */
  why(seq) {
    const place = this.places.get(seq);
    if (place === undefined) throw new NoMoment(`this file does not contain event ${seq}`);
    const chain = this.#chain(seq);
    const [, end, says] = this.causes.ends.get(chain[chain.length - 1]) ?? [seq, /** @type {const} */ ("unknown"), ""];
    return chain.map((at, i) => {
      const event = this.events[this.places.get(at) ?? 0];
      const last = i === chain.length - 1;
      return {
        seq: at, event, told: sentence(this.sentences, event), rule: this.rules[this.causes.rules[this.places.get(at) ?? 0] - 1] ?? null,
        end: last ? end : null, says: last ? says || null : null, controller_gap: i === 0 ? this.causes.gaps.get(at) ?? null : null,
      };
    });
  }

  /** The numbers from an effect back to its first cause. @param {number} seq */
  #chain(seq) {
    const exact = this.causes.chains.get(seq);
    if (exact !== undefined) return exact;
    const chain = [seq];
    for (;;) {
      const here = chain[chain.length - 1];
      const back = this.causes.back[this.places.get(here) ?? 0];
      if (!back) return chain;
      chain.push(here - back);
    }
  }
}

/**
 * The messages of a window, ordered by sending time; without classes only counted.
 * @param {Message[]} messages @param {number} from_us @param {number} to_us @param {string[]} classes @param {number} limit
 */
function select(messages, from_us, to_us, classes, limit) {
  /** @type {Message[]} */
  const shown = [];
  /** @type {Record<string, number>} */
  const hidden = {};
  let truncated = false;
  for (const message of messages) {
    if (message.sent_us > to_us) break;
    if (message.sent_us < from_us - LONGEST_US || (message.arrived_us ?? message.sent_us) < from_us) continue;
    const wanted = classes.length === 0 || classes.includes(message.class);
    if (wanted && shown.length < limit) {
      shown.push(message);
      continue;
    }
    hidden[message.class] = (hidden[message.class] ?? 0) + 1;
    truncated ||= wanted;
  }
  return { messages: shown, hidden, truncated };
}
