// The file of a lecture: a list of plays in order, as JSON that a lecturer can also edit by hand. Pure.

import { TABS } from "../time/hash.js";

/**
 * @typedef {{title: string, notes: string, lesson?: string, scenario?: string, bug?: boolean, seed?: number, faults?: string,
 *   live?: string, script?: any, at?: number, tab?: string}} Play  What it shows is one of: `lesson`; `scenario` (with its bug, or with a `seed`);
 *   `seed` of `faults`; `live`, a scenario on this cluster; `script`, a scenario file to run on this cluster; or a tab alone.
 *   `at` is the number of the event to show.
 * @typedef {{zabka_lecture: 1, title: string, keep_topics: string[], keep_groups: string[], plays: Play[]}} LectureFile
 */

export const PLAYS_MAX = 200;
/** The fields of which a play has one at most. */
const KINDS = /** @type {const} */ (["lesson", "scenario", "seed", "live", "script"]);

/** A file is no lecture; the message is the reason. */
export class NoLecture extends Error {}

/** Whether parsed JSON claims to be a lecture. @param {any} content */
export const isLecture = (content) => typeof content === "object" && content !== null && "zabka_lecture" in content;

/** Check parsed JSON, and fill in what it leaves out. @param {any} content @returns {LectureFile} Raises NoLecture. */
export function lectureOf(content) {
  if (!isLecture(content)) throw new NoLecture("it has no zabka_lecture");
  if (content.zabka_lecture !== 1) throw new NoLecture(`version ${content.zabka_lecture} is not known; this page reads version 1`);
  if (!Array.isArray(content.plays) || content.plays.length === 0) throw new NoLecture("plays is missing or empty");
  if (content.plays.length > PLAYS_MAX) throw new NoLecture(`it has more than ${PLAYS_MAX} plays`);
  return {
    zabka_lecture: 1, title: text(content.title, "title") || "Lecture", keep_topics: names(content.keep_topics, "keep_topics"),
    keep_groups: names(content.keep_groups, "keep_groups"), plays: content.plays.map(play),
  };
}

/** The text of the file. @param {LectureFile} lecture */
export const written = (lecture) => `${JSON.stringify(lecture, null, 1)}\n`;

/** What a play shows, in one word for its kind. @param {Play} of @returns {typeof KINDS[number] | "view"} */
export const kindOf = (of) => KINDS.find((kind) => of[kind] !== undefined) ?? "view";

/** Whether a play changes the live cluster. @param {Play} of */
export const isAction = (of) => of.live !== undefined || of.script !== undefined;

/** @param {any} of @param {number} i @returns {Play} */
function play(of, i) {
  const where = `play ${i + 1}`;
  if (typeof of !== "object" || of === null) throw new NoLecture(`${where} is no object`);
  const kinds = KINDS.filter((kind) => of[kind] !== undefined);
  // A scenario can have a seed of its own.
  if (kinds.length > 1 && kinds.join() !== "scenario,seed") throw new NoLecture(`${where} has both ${kinds[0]} and ${kinds[1]}`);
  /** @type {Play} */
  const found = { title: text(of.title, `${where}: title`), notes: text(of.notes, `${where}: notes`) };
  for (const name of /** @type {const} */ (["lesson", "scenario", "faults", "live"])) if (of[name] !== undefined) found[name] = text(of[name], `${where}: ${name}`);
  for (const name of /** @type {const} */ (["seed", "at"])) {
    if (of[name] === undefined || of[name] === null) continue;
    if (!Number.isSafeInteger(of[name]) || of[name] < 0) throw new NoLecture(`${where}: ${name} is no number of an event or seed`);
    found[name] = of[name];
  }
  if (of.bug !== undefined) found.bug = of.bug === true;
  if (of.script !== undefined) {
    if (of.script?.driver !== "world" || !Array.isArray(of.script.steps)) throw new NoLecture(`${where}: script is no scenario of a whole cluster`);
    found.script = of.script;
  }
  if (of.tab !== undefined) {
    if (!TABS.includes(of.tab)) throw new NoLecture(`${where}: there is no tab ${of.tab}`);
    found.tab = of.tab;
  }
  found.title ||= found.lesson ?? found.scenario ?? found.live ?? found.script?.title ?? (found.seed === undefined ? `Tab ${found.tab ?? "tracks"}` : `Seed ${found.seed}`);
  return found;
}

/** @param {any} value @param {string} where */
function text(value, where) {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") throw new NoLecture(`${where} is no text`);
  return value;
}

/** @param {any} value @param {string} where @returns {string[]} */
function names(value, where) {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || value.some((each) => typeof each !== "string")) throw new NoLecture(`${where} is no list of names`);
  return value;
}

/**
 * The lecture with a play moved, or removed if `to` is null.
 * @param {LectureFile} lecture @param {number} from @param {number | null} to @returns {LectureFile}
 */
export function moved(lecture, from, to) {
  const plays = lecture.plays.filter((_, i) => i !== from);
  if (to !== null) plays.splice(to, 0, lecture.plays[from]);
  return { ...lecture, plays };
}
