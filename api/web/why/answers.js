// Answers of the API that stay as they are, each asked for once: what is drawn asks for them again and again.  Those about
// the live run, which goes on, are asked for anew after a while; until then, and meanwhile, the last one stands.

import { NoMoment, read } from "../time/run.js";

/** @typedef {{state: "loading" | "ready" | "failed", value: any, message: string, until_ms: number}} Answer  It counts until then. */

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
   * The answer to a path, asked for where it is not here.
   * @param {string} path @param {() => void} changed @param {(path: string) => Promise<any>} ask how it is asked for @returns {Answer}
   */
  of(path, changed, ask = read) {
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

  /** @param {string} path @param {Answer} answer @param {(path: string) => Promise<any>} ask */
  async #fetch(path, answer, ask) {
    try {
      const value = await ask(path);
      Object.assign(answer, { state: "ready", value, until_ms: LIVE.test(path) ? performance.now() + LIVE_FOR_MS : Infinity });
    } catch (reason) {
      if (!(reason instanceof NoMoment)) throw reason;
      Object.assign(answer, { state: "failed", message: reason.message, until_ms: performance.now() + FAILED_FOR_MS });
    }
  }
}
