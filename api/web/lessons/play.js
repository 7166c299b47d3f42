// Runs a scenario in the simulated world, and waits for its stored runs.

import { source } from "../source/source.js";

/**
 * @typedef {{run: string, bug: string | null}} Kept  The ids of the runs without and with the bug.
 */

const LOOK_MS = 100;
const FAULTS = ["fault_injected", "admin_requested"];
const ELECTIONS = ["records_lost", "leader_elected", "controller_elected", "leader_established", "session_expired"];

/** A run that cannot be shown; the message is the reason. */
export class NotPlayed extends Error {}

/**
 * Play a scenario or a seed, and wait for its stored runs.
 * @param {import("../actions.js").Request} request @param {import("../actions.js").Actions} actions @returns {Promise<Kept>} Raises NotPlayed.
 */
export async function playKept(request, actions) {
  const answer = await actions.send(request);
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
  const { decisive_seq } = await source().info(shown);
  if (decisive_seq != null) return { run: shown, at: decisive_seq, with: bug === null ? null : run };
  const [fault] = (await source().events(run, { types: FAULTS, limit: 1 })).entries;
  const [came] = (await source().events(run, { after: fault?.seq ?? 0, types: ELECTIONS, limit: 1 })).entries;
  return { run, at: came?.seq ?? fault?.seq ?? null, with: bug };
}
