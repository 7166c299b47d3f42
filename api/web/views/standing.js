// The state of the cluster at the shown moment: one row per node, with the actions on its process.

import { html, nothing } from "lit-html";

import { curl, requests } from "../actions.js";
import { controllerTerm, lastKnown, plural, shortTerm } from "../format.js";
import { leftOfSession, silenceText } from "../model.js";
import { source } from "../source/source.js";
import { closed, placed } from "./menu.js";
import { icon, panel, send } from "./parts.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../model.js").Peer} Peer
 * @typedef {import("../model.js").Broker} Broker
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {{name: string, process: string, pid: number | null, silent: import("../model.js").Silent | null}} Node
 */

const IN_MENU = ["Stop", "Pause", "Restart"];
/** @type {Record<string, string[]>} The useful actions for each process state. */
const SENSIBLE = {
  running: ["Kill", "Stop", "Pause", "Restart"],
  paused: ["Kill", "Resume", "Restart"],
  down: ["Start"],
};

/** @param {Model} m @param {Actions} actions @param {Moment} moment */
export function standing(m, actions, moment) {
  const registered = m.brokers.filter((b) => b.registered).length;
  const aside = html`<span class="sum"><b>${registered}</b> of ${plural(m.brokers.length, "broker")} registered${m.ensemble.stale ? `, ${lastKnown(m.ensemble)}` : ""}</span>`;
  const off = moment.live ? "the API does not respond" : html`the past cannot be changed. <kbd>End</kbd> goes back to live`;
  const body = html`${actions.off && source().live ? html`<p class="quiet">Actions are off: ${off}.</p>` : nothing}
    <ul class="standing-nodes" aria-label="Nodes">${m.brokers.map((b) => brokerRow(b, m, actions))}${m.peers.map((p) => peerRow(p, actions))}
    ${m.brokers.length + m.peers.length ? nothing : html`<li class="quiet">no nodes yet</li>`}</ul>`;
  return panel("standing", moment.live ? "The cluster" : "The cluster at this moment", aside, body);
}

/** @param {Broker} broker @param {Model} m @param {Actions} actions */
function brokerRow(broker, m, actions) {
  const official = m.ensemble.id === broker.id;
  const { verdict, text } = broker.judged;
  const says = broker.silent || broker.age_ms === null ? nothing : html`<span class="says ${verdict}" title="Controller according to broker ${broker.id}: ${controllerTerm(broker.believes_id, broker.believes_epoch)} (${text})">${verdict === "stale"
    ? html`${icon("warn")} ` : nothing}${shortTerm(broker.believes_id, broker.believes_epoch)}</span>`;
  const zombie = !official && broker.is_controller;
  const amiss = [zombie ? "acts as controller" : "", broker.registered || broker.silent ? "" : "not registered"].filter(Boolean);
  return html`<li class="node ${broker.process} ${official ? "leads" : ""}" aria-label="Broker ${broker.id}">
    <span class="who of-broker b${broker.id % 8}">${icon(official ? "crown" : "empty")}<b>broker ${broker.id}</b></span>
    <span class="how">${state(broker)}${official ? html`<span class="role">controller</span>` : nothing}${zombie || !amiss.length ? nothing : html`<span class="warn">${amiss[0]}</span>`}</span>
    ${says}${handles(actions, broker)}
    ${zombie ? html`<span class="note warn">${amiss.join(", ")}</span>` : nothing}
    ${broker.registered && broker.lost_us ? html`<span class="note warn" role="timer">${icon("looking")} ${leftOfSession(m, broker.lost_us)}</span>` : nothing}
    ${broker.silent ? html`<span class="note quiet">${silenceText(broker.silent)}</span>` : nothing}</li>`;
}

/** @type {Record<string, string>} */
const ROLES = { LEADING: "leader", FOLLOWING: "follower", LOOKING: "looking for a leader", OBSERVING: "observer" };

/** @param {Peer} peer @param {Actions} actions */
function peerRow(peer, actions) {
  const role = peer.process === "running" ? html`<span class=${peer.state === "LOOKING" ? "warn" : "role"}>${ROLES[peer.state] ?? peer.state}</span>` : nothing;
  return html`<li class="node ${peer.process} ${peer.leads ? "leads" : ""}" aria-label="Peer ${peer.id}">
    <span class="who">${icon(peer.leads ? "crown" : "empty")}<b>peer ${peer.id}</b></span>
    <span class="how">${state(peer)}${role}</span>
    <span class="says" title="ZAB epoch">${peer.silent ? nothing : `e${peer.current_epoch}`}</span>${handles(actions, peer)}
    ${peer.silent ? html`<span class="note quiet">${silenceText(peer.silent)}</span>` : nothing}</li>`;
}

/** @type {Record<string, "running" | "paused" | "empty">} */
const SHAPES = { running: "running", paused: "paused", unknown: "empty" };

/** @param {Node} node */
function state(node) {
  const title = node.silent ? silenceText(node.silent) : node.pid ? `pid ${node.pid}` : nothing;
  return html`<span class="process ${node.process}" title=${title}>${icon(SHAPES[node.process] ?? "down")}${node.process}</span>`;
}

/** Kill, Start or Resume, and a menu with the other actions. @param {Actions} actions @param {Node} node */
export function handles(actions, node) {
  if (!source().live) return nothing;
  const spoken = node.name.replace("-", " ");
  if (node.process === "unknown" && !node.silent) return html`<span class="handles quiet" title="this cluster does not manage the broker's process">not managed here</span>`;
  const sensible = SENSIBLE[node.process] ?? [];
  const one = (/** @type {string} */ action) => send(actions, requests.act(node.name, action.toLowerCase()), action, {
    name: `${action} ${spoken}`, disabled: !sensible.includes(action), tone: action === "Kill" ? "danger" : "",
  });
  const menu = `menu-${node.name}`;
  return html`<span class="handles" role="group" aria-label="Actions on ${spoken}">${one("Kill")}${one(node.process === "paused" ? "Resume" : "Start")}
    <button type="button" class="small more" popovertarget=${menu} aria-label="More on ${spoken}" title="more">⋯</button></span>
    <div id=${menu} popover class="menu" @beforetoggle=${placed} @click=${closed} role="group" aria-label="More on ${spoken}">
      ${whatIfButton(actions, node, spoken, sensible.includes("Kill"))}${IN_MENU.map(one)}
      ${sensible.length ? html`<button type="button" class="small" @click=${() => void copy(node, sensible[0])}>Copy “${sensible[0]}” as curl</button>` : nothing}</div>`;
}

/** @param {Actions} actions @param {Node} node @param {string} spoken @param {boolean} alive */
function whatIfButton(actions, node, spoken, alive) {
  const request = requests.whatIf(node.name);
  const off = !alive || node.process === "paused" || !actions.allows(request);
  return html`<button type="button" class="small" aria-label="What if ${spoken} is killed" title=${actions.off && off ? actions.why : curl(request)}
    ?disabled=${off} @click=${() => void actions.askWhatIf(node.name)}>What if it is killed…</button>`;
}

/** @param {Node} node @param {string} action */
function copy(node, action) {
  return navigator.clipboard?.writeText(curl(requests.act(node.name, action.toLowerCase()))).catch(() => undefined);
}
