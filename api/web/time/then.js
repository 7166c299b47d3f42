// The page's state as of a past moment: what the journal says up to there, and nothing of what is asked of the API now.  Pure.

import { newState } from "../store.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("./moment.js").Current} Current
 */

/**
 * What the panels are drawn from where a past moment is shown.  What somebody typed and pressed stays.
 * @param {State} state @param {Current} current @returns {State}
 */
export function asOf(state, current) {
  const { ui, calls, analytics, scenarios, sentences, link, events, chatter } = state;
  return {
    ...newState(), cluster: current.state, known: true, past: true, ui, calls, analytics, scenarios, sentences, link, events, chatter,
  };
}
