// The banner of a scenario that runs on this cluster.

import { html } from "lit-html";

import { icon } from "./parts.js";

/** The state of a scenario that runs on this cluster. @param {any} run */
export function playedHere(run) {
  if (run.state !== "ended") return html`${icon("looking")} ${run.scenario} runs on this cluster. The cluster is restored afterwards.`;
  if (run.error === "it was stopped") {
    if (run.problems.length === 0) return html`${icon("empty")} ${run.scenario} was stopped, and the cluster is restored.`;
    return html`${icon("bad")} ${run.scenario} was stopped. ${run.problems.join("; ")}.`;
  }
  if (run.error) return html`${icon("bad")} ${run.scenario} ended on this cluster without a result: ${run.error}.`;
  if (run.as_expected) return html`${icon("ok")} ${run.scenario} ran on this cluster: passed.`;
  return html`${icon("bad")} ${run.scenario} ran on this cluster: failed. ${run.problems.join("; ")}.`;
}
