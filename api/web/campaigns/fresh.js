// Responses of the API that expire: requested again every few seconds while they are drawn.

import { read } from "../source/http.js";
import { NoMoment } from "../source/no_moment.js";

/** @typedef {{state: "loading" | "ready" | "failed", value: any, message: string, asking: boolean, drawn: boolean}} Answer */

/** @type {Map<string, Answer>} */
const kept = new Map();

/**
 * The newest response for a path. If the request fails, the reason replaces the old value.
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
  // Stop polling once the response is not drawn: each draw sets `drawn` again.
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
