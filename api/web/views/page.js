// The page: a function from the state and the shown moment to templates.

import { html, nothing } from "lit-html";
import { ref } from "lit-html/directives/ref.js";

import { duration } from "../format.js";
import { lectureBar, startButton } from "../lecture/bar.js";
import { shownRuns } from "../store.js";
import { chosen } from "../tabs.js";
import { KEYS } from "../time/keys.js";
import { transport } from "../time/transport.js";
import { tabs, top } from "./header.js";
import { attempt, icon, submit } from "./parts.js";
import { playedHere } from "./played_here.js";
import { rail } from "./rail.js";
import { whatIf } from "./what_if.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("../store.js").State} State
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {import("../time/player.js").Player} Player
 */

/**
 * @param {State} state of the moment that is shown @param {Model} m @param {Actions} actions @param {Moment} moment @param {Player} player
 * @param {() => void} changed @param {() => Promise<void>} readChatter fetches the progress events
 * @param {(what: "keys" | "projector" | "drawer" | "offsets") => void} toggle @param {import("../lecture/lecture.js").Lecture} lecture
 */
export function page(state, m, actions, moment, player, changed, readChatter, toggle, lecture) {
  return html`
    <a class="skip" href="#main">Skip to the cluster</a>
    <div class="head">${attempt("the header", () => top(state, m, moment, Date.now() - state.skew_ms, actions))}${banner(state, m, moment)}
      ${tabs(moment, m, startButton(lecture))}</div>
    <main class="on-${moment.place.tab} ${state.ui.drawer ? "drawer" : ""} ${m.silent_ms === null ? "" : "old"}" id="main" tabindex="-1">
      <div class="stage">${attempt("this tab", () => chosen(state, m, moment, changed, actions))}</div>
      ${attempt("the side panel", () => rail(state, m, actions, moment, changed, readChatter))}
    </main>
    <div class="foot">${attempt("the lecture", () => lectureBar(lecture))}${attempt("the time bar", () => transport(moment, player, state, toggle))}</div>
    ${state.ui.token ? tokenForm(actions) : nothing}
    ${state.what_if && !state.ui.token ? whatIf(state.what_if, actions, Date.now() - state.skew_ms) : nothing}
    ${state.ui.keys ? keysDialog(() => toggle("keys")) : nothing}`;
}

/** @param {State} state @param {Model} m @param {Moment} moment */
function banner(state, m, moment) {
  const banners = [];
  const old = m.silent_ms === null ? "" : `, ${duration(m.silent_ms)} ago`;
  if (state.link === "reconnecting") {
    banners.push(html`<p class="banner" role="alert">${icon("warn")} Reconnecting: the API does not respond. The cluster may still be running.
      The page shows its state at event ${state.cluster.seq}${old}.</p>`);
  } else if (state.poll_problem !== null) {
    banners.push(html`<p class="banner" role="alert">${icon("warn")} ${state.poll_problem}; ${old ? html`the page shows the last known state${old}` : "ages and process states may be out of date"}.</p>`);
  }
  const run = shownRuns(state.scenarios).find((each) => each.live);
  if (run && moment.place.tab === "tracks") banners.push(html`<p class="banner ${run.state === "ended" && !run.as_expected ? "" : "calm"}" role="status">${playedHere(run)}</p>`);
  if (moment.playing) banners.push(html`<p class="banner calm" role="status">${icon("looking")} ${moment.playing} runs in a simulated world, for the moment of this link…</p>`);
  if (moment.trouble) banners.push(html`<p class="banner" role="alert">${icon("warn")} ${moment.trouble}</p>`);
  return banners;
}

/** @param {() => void} close */
function keysDialog(close) {
  return html`<dialog class="dialog keys" aria-labelledby="keys-title" ${ref(openModal)} @close=${close}
      @keydown=${(/** @type {KeyboardEvent} */ e) => e.key === "?" && close()}>
    <h2 id="keys-title">Keyboard shortcuts</h2>
    <dl>${KEYS.map(([keys, what]) => html`<div><dt>${keys.split(", ").map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl>
    <form method="dialog"><button class="primary" autofocus>Close</button></form></dialog>`;
}

/** @param {Actions} actions */
function tokenForm(actions) {
  const take = submit((fields) => actions.useToken(fields.token));
  return html`<dialog class="dialog" aria-labelledby="token-title" ${ref(openModal)} @cancel=${() => actions.forgetToken()}>
    <form @submit=${take}>
      <h2 id="token-title">The API requires a token</h2>
      <p>The API does not listen on loopback, or its cluster is secured, so calls that change something, or read records or ACLs, need a bearer token. <code>zabka up</code> printed where the token is stored.</p>
      <label class="field"><span>token</span><input name="token" type="password" required autocomplete="off" autofocus></label>
      <p class="row"><button class="primary">Use token</button><button type="button" @click=${() => actions.forgetToken()}>Cancel</button></p>
    </form></dialog>`;
}

/** A modal dialog keeps the focus and closes on Escape by itself. @param {Element | undefined} dialog */
export function openModal(dialog) {
  // It is only in the document after this drawing.
  if (dialog instanceof HTMLDialogElement) queueMicrotask(() => dialog.isConnected && !dialog.open && dialog.showModal());
}
