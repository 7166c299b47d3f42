// Cached responses of the API, for data that does not change: each drawing asks for them again. Responses about the
// live run are refreshed after a while; the previous one is shown meanwhile.

import { NoMoment } from "../source/no_moment.js";

/** @typedef {{state: "loading" | "ready" | "failed", value: any, message: string, until_ms: number}} Answer  It is valid until `until_ms`. */

const KEPT_MAX = 60;
const FAILED_FOR_MS = 5000;
const LIVE_FOR_MS = 10_000;
const LIVE = /\/runs\/live\/|[?&]from=live\b/;

export class Answers {
  constructor() {
    /** @type {Map<string, Answer>} */
    this.kept = new Map();
  }

  /**
   * The response for a path, requested if it is not cached.
   * @param {string} path identifies the response @param {() => void} changed @param {() => Promise<any>} ask sends the request
   * @returns {Answer}
   */
  of(path, changed, ask) {
    const kept = this.kept.get(path);
    if (kept && performance.now() < kept.until_ms) return kept;
    if (kept?.state === "ready") {
      kept.until_ms = Infinity;
      void this.#fetch(path, kept, ask).then(changed);
      return kept;
    }
    /** @type {Answer} */
    const answer = { state: "loading", value: null, message: "", until_ms: Infinity };
    this.kept.delete(path);
    this.kept.set(path, answer);
    for (const old of this.kept.keys()) if (this.kept.size > KEPT_MAX) this.kept.delete(old);
    void this.#fetch(path, answer, ask).then(changed);
    return answer;
  }

  /** @param {string} path @param {Answer} answer @param {() => Promise<any>} ask */
  async #fetch(path, answer, ask) {
    try {
      const value = await ask();
      Object.assign(answer, { state: "ready", value, until_ms: LIVE.test(path) ? performance.now() + LIVE_FOR_MS : Infinity });
    } catch (reason) {
      if (!(reason instanceof NoMoment)) throw reason;
      Object.assign(answer, { state: "failed", message: reason.message, until_ms: performance.now() + FAILED_FOR_MS });
    }
  }
}
