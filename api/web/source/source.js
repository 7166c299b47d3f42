// The source of runs: the API (`http.js`), or the file that contains the page (`embedded.js`). Every view reads runs
// through this port.

import { HttpSource } from "./http.js";

/**
 * @typedef {import("../fold.js").Entry} Entry
 * @typedef {import("../fold.js").ClusterState} ClusterState
 * @typedef {import("../time/run.js").RunInfo} RunInfo
 * @typedef {{after?: number, until?: number, types?: string[], not_types?: string[], limit: number}} Query  Some of a run's
 *   events: the first ones after a number, or without `after` the last ones up to a number.
 * @typedef {{entries: Entry[], through: number}} Found  The search may be limited: a short or empty result only covers the
 *   numbers up to `through`, or back to it.
 * @typedef {{first_us: number, last_us: number, lanes: import("../tracks/older.js").Lane[]}} SpansView
 * @typedef {{messages: import("../messages/words.js").Message[], hidden: Record<string, number>, truncated: boolean}} Selected
 * @typedef {{number: number, kind: string, target: string, cause_seq: number, from_us: number, to_us: number | null, headline: string,
 *   summary: string[]}} Incident  A first cause and its effects.
 * @typedef {object} Source  All methods raise NoMoment.
 * @property {boolean} live whether there is a cluster that can be followed and changed
 * @property {Partial<import("../time/hash.js").Place>} opening the place of an address without one
 * @property {string[]} tabs the names of the tabs that it has data for
 * @property {() => Promise<import("../sentences.js").Table>} sentences
 * @property {() => Promise<RunInfo[]>} runs
 * @property {(run: string, signal?: AbortSignal | null) => Promise<RunInfo>} info
 * @property {(run: string, query: Query) => Promise<Found>} events
 * @property {(run: string, seq: number, signal?: AbortSignal | null) => Promise<ClusterState>} state
 * @property {(run: string, bins: number, lanes: string[], to_us?: number) => Promise<SpansView>} spans
 * @property {(run: string, seq: number) => Promise<import("../why/panel.js").Step[]>} why
 * @property {(run: string, other: string) => Promise<import("../compare/tab.js").Divergence>} divergence
 * @property {(run: string) => Promise<Incident[]>} incidents
 * @property {(run: string, from_us: number, to_us: number, classes: string[], limit: number) => Promise<Selected>} messages
 * @property {() => Promise<import("../lessons/tab.js").Lesson[]>} lessons
 * @property {(lesson: string, run: string) => Promise<import("../lessons/tab.js").Revealed>} answer
 * @property {(scenario: string, seed: number | null, actions: import("../actions.js").Actions) => Promise<import("../lessons/play.js").Kept>} play
 *   runs a scenario, or the random faults of that name with a seed
 * @property {(run: string, time: {from_us: number, to_us: number} | null, format: "html" | "perfetto" | "shiviz") => Promise<File>} download
 *   the run, or that time of it, as one file
 * @property {(file: File, actions: import("../actions.js").Actions) => Promise<string>} open adds the runs of a file, and returns
 *   the id of the first
 * @property {(rule: import("../why/rule.js").Rule["source"]) => string | null} code the address of one of our functions
 */

/** @type {Source} */
let current = new HttpSource();

/** The source of all runs on the page. */
export const source = () => current;

/** Read runs from there. @param {Source} other */
export function use(other) {
  current = other;
}
