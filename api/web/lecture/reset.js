// Reset the cluster between two plays, and follow the progress. Two presses, because it deletes topics.

import { html, nothing } from "lit-html";

import { curl, outcome, requests } from "../actions.js";
import { icon } from "../views/parts.js";

/**
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {{name: string, text: string, state: "waiting" | "running" | "done" | "failed", detail: string}} Step
 * @typedef {{id: string, state: "running" | "done" | "failed", took_ms: number | null, steps: Step[]}} Reset
 */

const POLL_MS = 250;
const ARMED_MS = 5000;
const SHAPES = /** @type {const} */ ({ waiting: "empty", running: "looking", done: "ok", failed: "bad" });

export class ResetButton {
  /** @param {Actions} actions @param {() => void} changed */
  constructor(actions, changed) {
    this.actions = actions;
    this.changed = changed;
    this.armed = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} Disarms the button. */
    this.disarming = undefined;
    this.sending = false;
    /** @type {Reset | null} */
    this.shown = null;
    /** Why there is no reset, as a sentence without its full stop; empty if there is no problem. */
    this.trouble = "";
  }

  /** @param {import("./file.js").LectureFile} lecture */
  request({ keep_topics, keep_groups }) {
    return requests.resetCluster({ ...(keep_topics.length ? { keep_topics } : {}), ...(keep_groups.length ? { keep_groups } : {}) });
  }

  /** Arm the button; if it is armed, reset the cluster. @param {import("./file.js").LectureFile} lecture */
  press(lecture) {
    if (this.sending || this.shown?.state === "running" || !this.actions.allows(this.request(lecture))) return;
    if (this.armed) void this.#reset(lecture);
    this.arm(!this.armed);
  }

  /** Arm the button for a few seconds, or disarm it. @param {boolean} to */
  arm(to) {
    clearTimeout(this.disarming);
    if (to) this.disarming = setTimeout(() => this.arm(false), ARMED_MS);
    if (this.armed === to) return;
    this.armed = to;
    this.changed();
  }

  close() {
    this.shown = null;
    this.trouble = "";
    this.changed();
  }

  /** @param {import("./file.js").LectureFile} lecture */
  async #reset(lecture) {
    this.shown = null;
    this.trouble = "";
    this.sending = true;
    const answer = await this.actions.send(this.request(lecture));
    this.sending = false;
    if (!answer?.ok) {
      this.trouble = `The cluster was not reset: ${answer === null ? this.actions.why || "the API does not respond" : outcome(answer)}`;
      this.changed();
      return;
    }
    this.shown = /** @type {Reset} */ (answer.body);
    const { id } = this.shown;
    while (this.shown?.id === id && this.shown.state === "running") {
      this.changed();
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      const found = await this.actions.read(requests.reset(id));
      if (this.shown?.id !== id) break;
      if (found?.ok) this.shown = /** @type {Reset} */ (found.body);
      else if (found?.status === 404) {
        this.shown = null;
        this.trouble = "The API has restarted during the reset; reset again";
      }
    }
    this.changed();
    this.actions.refresh();
  }

  /** The button; its tooltip says what a reset does. @param {import("./file.js").LectureFile} lecture */
  button(lecture) {
    const request = this.request(lecture);
    const off = this.sending || !this.actions.allows(request) || this.shown?.state === "running";
    const kept = lecture.keep_topics.length ? ` except ${lecture.keep_topics.join(", ")}` : "";
    const title = off && this.actions.why ? this.actions.why : `Stops scripts, producers and consumers; removes all faults; starts all nodes; deletes all topics${kept}, and all consumer groups without members${lecture.keep_groups.length ? ` except ${lecture.keep_groups.join(", ")}` : ""}; elects preferred leaders. Settings, users, quotas and stored runs stay.\n${curl(request)}`;
    // A key that is held down presses the button again and again.
    const once = (/** @type {KeyboardEvent} */ event) => event.repeat && event.preventDefault();
    return html`<button type="button" class="danger ${this.armed ? "sure" : ""}" title=${title} ?disabled=${off} aria-label=${this.armed ? "Really reset this cluster" : "Reset this cluster"}
      @click=${() => this.press(lecture)} @keydown=${once} @blur=${() => this.arm(false)}>${this.armed ? html`${icon("warn")} Really reset?` : "Reset cluster"} <kbd aria-hidden="true">R</kbd></button>`;
  }

  /** The steps of the reset that was requested last. */
  progress() {
    if (this.trouble) return html`<p class="reset bad" role="alert">${icon("bad")} ${this.trouble}. <button type="button" class="small" @click=${() => this.close()}>Close</button></p>`;
    if (this.shown === null) return nothing;
    const { state, steps, took_ms } = this.shown;
    return html`<div class="reset" role="status" aria-label="Reset of the cluster"><b class=${state === "failed" ? "bad" : ""}>${icon(state === "failed" ? "bad" : state === "done" ? "ok" : "looking")}
        ${state === "running" ? "Resetting the cluster…" : state === "done" ? `The cluster was reset in ${((took_ms ?? 0) / 1000).toFixed(1)} s` : "The reset failed"}</b>
      <ol>${steps.map((step) => html`<li class=${step.state}>${icon(SHAPES[step.state])} ${step.text}${step.detail ? html`: <span class=${step.state === "failed" ? "bad" : "quiet"}>${step.detail}</span>` : nothing}</li>`)}</ol>
      ${state === "running" ? nothing : html`<button type="button" class="small" @click=${() => this.close()}>Close</button>`}</div>`;
  }
}
