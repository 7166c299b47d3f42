// Answers of the API that grow old: asked for again every few seconds, for as long as somebody draws them.

import { NoMoment, read } from "../time/run.js";

/** @typedef {{state: "loading" | "ready" | "failed", value: any, message: string, asking: boolean, drawn: boolean}} Answer */

/** @type {Map<string, Answer>} */
const kept = new Map();

/**
 * The newest answer to a path.  One that cannot be had any more leaves its place to the reason.
 * @param {string} path @param {number} everyMs @param {() => void} changed @returns {Answer}
 */
export function fresh(path, everyMs, changed) {
  /** @type {Answer} */
  const answer = kept.get(path) ?? { state: "loading", value: null, message: "", asking: false, drawn: false };
  kept.set(path, answer);
  answer.drawn = true;
  if (!answer.asking) void ask(path, everyMs, answer, changed);
  return answer;
}

/** @param {string} path @param {number} everyMs @param {Answer} answer @param {() => void} changed */
async function ask(path, everyMs, answer, changed) {
  answer.asking = true;
  // What is not drawn any more is not asked for: the view says so by not coming back.
  while (answer.drawn) {
    answer.drawn = false;
    try {
      if (!document.hidden) Object.assign(answer, { state: "ready", value: await read(path) });
    } catch (reason) {
      if (!(reason instanceof NoMoment)) throw reason;
      Object.assign(answer, { state: "failed", value: null, message: reason.message });
    }
    changed();
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
  answer.asking = false;
}
