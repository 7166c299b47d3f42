// The page's state as of a past moment: from the journal up to there, without present data from the API. Pure.

import { newState } from "../store.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("./moment.js").Current} Current
 */

/**
 * The state for drawing a past moment. The user's input is kept.
 * @param {State} state @param {Current} current @returns {State}
 */
export function asOf(state, current) {
  const { ui, calls, analytics, scenarios, sentences, link, events, chatter } = state;
  return {
    ...newState(), cluster: current.state, known: true, past: true, ui, calls, analytics, scenarios, sentences, link, events, chatter,
  };
}
