// Plays a script of the outage library in the simulated world, and waits for the runs that are kept of it.

import { requests } from "../actions.js";
import { read } from "../time/run.js";

/**
 * @typedef {{run: string, bug: string | null}} Kept  The ids of the play as it is and with its bug.
 */

const LOOK_MS = 100;
const ELECTIONS = "records_lost,leader_elected,controller_elected,leader_established,session_expired";

/** A play that cannot be shown; its message says why. */
export class NotPlayed extends Error {}

/**
 * @param {string} name of the script @param {import("../actions.js").Actions} actions @returns {Promise<Kept>} Raises NotPlayed.
 */
export async function playKept(name, actions) {
  const answer = await actions.send(requests.play(name));
  if (answer === null || !answer.ok) throw new NotPlayed(answer?.body?.detail ?? "the API does not respond");
  const { scenarios } = actions.state;
  while (scenarios.run?.id === answer.body.id && scenarios.run.state !== "ended") await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  const run = scenarios.run;
  if (run?.id !== answer.body.id) throw new NotPlayed("another scenario was requested in the meantime");
  if (run.error || !run.kept) throw new NotPlayed(run.error ?? "the run was not stored");
  return run.kept;
}

/**
 * Where to look first in a play: at its decisive moment, with a bug in the play with it; if the player names none, at what
 * came of its first fault.
 * @param {Kept} kept @returns {Promise<{run: string, at: number | null, with: string | null}>} Raises NoMoment.
 */
export async function interesting({ run, bug }) {
  const shown = bug ?? run;
  const { decisive_seq } = await read(`/runs/${shown}`);
  if (decisive_seq != null) return { run: shown, at: decisive_seq, with: bug === null ? null : run };
  const [fault] = await read(`/runs/${run}/journal?types=fault_injected,admin_requested&limit=1`);
  const [came] = await read(`/runs/${run}/journal?after=${fault?.seq ?? 0}&types=${ELECTIONS}&limit=1`);
  return { run, at: came?.seq ?? fault?.seq ?? null, with: bug };
}
