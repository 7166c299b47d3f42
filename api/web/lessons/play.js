// Runs a scenario in the simulated world, and waits for its stored runs.

import { requests } from "../actions.js";
import { read } from "../time/run.js";

/**
 * @typedef {{run: string, bug: string | null}} Kept  The ids of the runs without and with the bug.
 */

const LOOK_MS = 100;
const ELECTIONS = "records_lost,leader_elected,controller_elected,leader_established,session_expired";

/** A run that cannot be shown; the message is the reason. */
export class NotPlayed extends Error {}

/**
 * @param {string} name of the scenario @param {import("../actions.js").Actions} actions @returns {Promise<Kept>} Raises NotPlayed.
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
 * The first moment to show of a run: its decisive moment, in the run with the bug if there is one. Without a decisive
 * moment, it is the result of the first fault.
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
