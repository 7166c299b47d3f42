// How a run is called in a list: short, and different from every other run's.  Pure.

import { clockShort } from "../format.js";

/** @typedef {{id: string, title: string, kind: string, of?: string | null, created_ms?: number}} Listed */

/**
 * What tells a run from others comes first, since lists are narrow: its script, whether it is the one with the bug, when it was
 * played.  The title, a whole sentence, is the same for each play of a script.
 * @param {Listed} run
 */
export function runLabel({ id, title, kind, of, created_ms }) {
  if (id === "live") return "live cluster";
  const script = kind === "seed" ? title : of || title || id;
  // A title of a play that differs from the script ends in what differs.
  const differs = id.endsWith(".bug") ? `, ${title.includes(": ") ? title.split(": ").at(-1) : "with its bug"}` : "";
  return `${script}${differs}${created_ms === undefined ? "" : ` · ${clockShort(created_ms * 1000)}`}`;
}
