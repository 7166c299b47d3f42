// The data of a window: its messages from the API, and the events around it. The last response is shown until the next
// one.

import { NoMoment } from "../source/no_moment.js";
import { source } from "../source/source.js";

/**
 * @typedef {import("../fold.js").Entry} Entry
 * @typedef {import("./words.js").Message} Message
 * @typedef {import("./window.js").Window} Window
 * @typedef {{key: string, run: string, window: Window, messages: Message[], hidden: Record<string, number>, truncated: boolean}} Loaded
 */

export const LIMIT = 5_000;
/** Live: when the latest messages are requested again. */
const AGAIN_MS = 1_500;

export class Conversation {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    /** @type {Loaded | null} */
    this.heard = null;
    this.trouble = "";
    this.asking = "";
    this.asked_ms = 0;
  }

  /**
   * The messages of a window, as far as they are loaded; missing ones are requested.
   * @param {string} run @param {Window} window @param {string[]} classes @param {boolean} growing whether there may be more later
   * @returns {Loaded | null}
   */
  of(run, window, classes, growing) {
    const key = `${run} ${window.from_us} ${window.to_us} ${classes.join()}`;
    const old = this.heard?.key === key;
    const now = performance.now();
    if (this.asking === "" && (!old || growing) && now - this.asked_ms > (old ? AGAIN_MS : growing ? 400 : 0)) void this.#ask(key, run, window, classes);
    return this.heard?.run === run ? this.heard : null;
  }

  /** Whether a request is in progress that is not shown yet. */
  get waits() {
    return this.asking !== "" && this.asking !== this.heard?.key;
  }

  /** @param {string} key @param {string} run @param {Window} window @param {string[]} classes */
  async #ask(key, run, window, classes) {
    this.asking = key;
    this.asked_ms = performance.now();
    try {
      const found = await source().messages(run, window.from_us, window.to_us, classes, classes.length ? LIMIT : 0);
      this.heard = { key, run, window, ...found };
      this.trouble = "";
    } catch (reason) {
      if (!(reason instanceof NoMoment)) throw reason;
      this.trouble = reason.message;
      // An empty response is a response: do not repeat the request at once.
      this.heard = { key, run, window, messages: [], hidden: {}, truncated: false };
    } finally {
      this.asking = "";
      this.changed();
    }
  }
}
