// The page: a function from the state to templates.

import { html, nothing } from "lit-html";
import { ref } from "lit-html/directives/ref.js";

import { belief } from "../format.js";
import { analytics, calls, events } from "./journal.js";
import { faults, workloads } from "./lab.js";
import { beliefs, brokers, peers } from "./nodes.js";
import { icon, submit } from "./parts.js";
import { losses, partitions } from "./partitions.js";
import { reigns } from "./reigns.js";
import { scenarios } from "./scenarios.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("../store.js").State} State
 */

/**
 * @param {State} state @param {Model} m @param {Actions} actions @param {() => void} changed
 * @param {() => Promise<void>} readChatter fetches what the event list leaves out
 */
export function page(state, m, actions, changed, readChatter) {
  const many = m.brokers.length > 4;
  return html`
    <a class="skip" href="#reigns">Skip to the cluster</a>
    ${top(state, m)}${banner(state)}
    <main>
      <div class="cluster ${many ? "many" : ""}">
        ${reigns(m)}${many ? beliefs(m) : nothing}
        ${peers(m, actions)}
        ${brokers(m, actions)}
        ${many ? nothing : beliefs(m)}
        ${workloads(state, m, actions)}
        ${partitions(state, m, actions, changed)}
        ${losses(state, m)}
        ${faults(m, actions)}
        ${analytics(state, actions)}
        ${scenarios(state, actions)}
      </div>
      <aside class="rail" aria-label="Journal">${calls(state)}${events(state, m, changed, readChatter)}</aside>
    </main>
    ${state.ui.token ? tokenForm(actions) : nothing}`;
}

/** @param {State} state @param {Model} m */
function top(state, m) {
  const { health } = m;
  const shape = health.level === "unknown" ? "empty" : health.level;
  return html`<header class="top">
    <h1><img src="/web/icon.svg" alt="" width="22" height="22">zabka</h1>
    <div class="health ${health.level}" role="group" aria-label="Health"><strong>${icon(shape)} ${health.word}</strong>
      <ul>${health.reasons.map((reason) => html`<li><a href=${reason.href}>${reason.text}</a></li>`)}</ul></div>
    <p class="now"><span>controller <b>${belief(m.ensemble.id, m.ensemble.epoch)}</b></span>
      <span>ZAB leader <b>${m.zab.known ? belief(m.zab.leader_id, m.zab.epoch) : "unknown"}</b></span>
      <span class="link ${state.link}">${icon(state.link === "live" ? "running" : "looking")} ${state.link}</span>
      <a href="/openapi.json">API</a></p>
  </header>`;
}

/** @param {State} state */
function banner(state) {
  if (state.link === "reconnecting") {
    return html`<p class="banner" role="alert">${icon("warn")} reconnecting… The API does not answer; the cluster may well go on.
      What you see is how it stood at number ${state.cluster.seq}.</p>`;
  }
  if (state.poll_problem === null) return nothing;
  return html`<p class="banner" role="alert">${icon("warn")} ${state.poll_problem}; ages and process states may be old.</p>`;
}

/** @param {Actions} actions */
function tokenForm(actions) {
  const take = submit((fields) => void actions.useToken(fields.token));
  return html`<dialog class="dialog" aria-labelledby="token-title" ${ref(openModal)} @cancel=${() => actions.forgetToken()}>
    <form @submit=${take}>
      <h2 id="token-title">The API wants its token</h2>
      <p>It does not listen on loopback, so calls that change something need a bearer token; <code>zabka up</code> said where it is kept.</p>
      <label class="field"><span>token</span><input name="token" type="password" required autocomplete="off" autofocus></label>
      <p class="row"><button class="primary">Use it</button><button type="button" @click=${() => actions.forgetToken()}>Cancel</button></p>
    </form></dialog>`;
}

/** A modal dialog keeps the focus inside and closes on Escape by itself. @param {Element | undefined} dialog */
function openModal(dialog) {
  // Not before it stands in the document, which is only once this turn's drawing is done.
  if (dialog instanceof HTMLDialogElement) queueMicrotask(() => dialog.isConnected && !dialog.open && dialog.showModal());
}
