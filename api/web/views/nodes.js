// Peers and brokers: their state and reports, and the actions on their processes.

import { html, nothing } from "lit-html";

import { age, clockShort, controllerTerm, lastKnown, plural } from "../format.js";
import { leftOfSession, silenceText } from "../model.js";
import { term } from "./glossary.js";
import { badge, icon, panel } from "./parts.js";
import { handles } from "./standing.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../model.js").Peer} Peer
 * @typedef {import("../model.js").Broker} Broker
 * @typedef {import("../actions.js").Actions} Actions
 */

/** @type {Record<string, "running" | "paused" | "empty">} */
const SHAPES_OF_PROCESSES = { running: "running", paused: "paused", unknown: "empty" };

/** @param {{process: string, pid: number | null, silent: import("../model.js").Silent | null}} node */
function processBadge(node) {
  const shape = SHAPES_OF_PROCESSES[node.process] ?? "down";
  const pid = node.pid ? html` <span class="pid">pid ${node.pid}</span>` : nothing;
  const absent = node.process === "unknown" ? "not managed here" : "no process";
  const title = node.silent ? silenceText(node.silent) : node.pid ? `pid ${node.pid}` : absent;
  const since = node.silent ? ` since ${clockShort(node.silent.since_us)}` : "";
  return html`<span class="process ${node.process}" title=${title}>${icon(shape)}${node.process}${since}${pid}</span>`;
}

/** @type {Record<string, "crown" | "follower" | "looking" | "observer" | "down">} */
const ROLE_SHAPES = { LEADING: "crown", FOLLOWING: "follower", LOOKING: "looking", OBSERVING: "observer", DOWN: "down" };

/** @param {Peer} peer @param {Actions} actions */
function peerCard(peer, actions) {
  if (peer.silent) return silentCard(`Peer ${peer.id}`, peer, actions);
  const epochs = peer.accepted_epoch === peer.current_epoch ? "" : "differ";
  return html`<li class="card ${peer.process} ${peer.leads ? "leads" : ""}" aria-label="Peer ${peer.id}">
    <header><h3>Peer ${peer.id}</h3>${badge(ROLE_SHAPES[peer.state] ?? "looking", peer.state, peer.state.toLowerCase())}
      ${processBadge(peer)}</header>
    <dl>
      <div><dt>phase</dt><dd>${peer.phase}</dd></div>
      <div><dt>leader</dt><dd>${peer.leader_id < 0 ? "none" : peer.leader_id === peer.id ? "itself" : `peer ${peer.leader_id}`}</dd></div>
      <div class=${epochs}><dt title="accepted epoch / current epoch">epochs</dt>
        <dd title="accepted ${peer.accepted_epoch}, current ${peer.current_epoch}">acc ${peer.accepted_epoch} · cur ${peer.current_epoch}</dd></div>
      <div><dt>zxid</dt><dd>${peer.zxid}</dd></div>
    </dl>
    ${handles(actions, peer)}
  </li>`;
}

/** @param {string} name @param {Peer | Broker} node @param {Actions} actions */
function silentCard(name, node, actions) {
  const silence = node.silent ? silenceText(node.silent) : "";
  return html`<li class="card unknown" aria-label=${name}>
    <header><h3>${name}</h3>${processBadge(node)}</header><p class="quiet">${silence}</p>${handles(actions, node)}</li>`;
}

/** @param {Model} m @param {Actions} actions */
export function peers(m, actions) {
  const { zab } = m;
  const aside = html`<span class="sum">${zab.leader_id < 0
    ? html`${icon("warn")} ${zab.known ? "no leader" : "leader unknown"}; last epoch <b>${zab.epoch}</b>`
    : html`leader: peer <b>${zab.leader_id}</b> · epoch <b>${zab.epoch}</b>`}${m.silent_ms === null ? "" : `, ${lastKnown({ age_ms: m.silent_ms })}`}</span>`;
  return panel("peers", html`${term("ZAB")} ensemble`, aside, cards(m.peers.map((peer) => peerCard(peer, actions))));
}

/** @param {unknown[]} shown */
function cards(shown) {
  return shown.length ? html`<ul class="cards">${shown}</ul>` : html`<p class="quiet">no nodes yet</p>`;
}

/** @param {Broker} broker @param {Model} m @param {Actions} actions */
function brokerCard(broker, m, actions) {
  const official = m.ensemble.id === broker.id;
  return html`<li class="card ${broker.process} ${official ? "leads" : ""}" aria-label="Broker ${broker.id}">
    <header><h3>Broker ${broker.id}</h3>${controllerBadge(broker, official)}${processBadge(broker)}</header>
    <dl>
      <div class=${broker.registered ? "" : "differ"}><dt>registered</dt><dd>${broker.registered ? "yes" : "no"}</dd></div>
      <div><dt>${term("session")}</dt><dd>${broker.session}</dd></div>
      <div><dt title="czxid of its znode in /brokers/ids">epoch</dt><dd>${broker.broker_epoch ?? "none"}</dd></div>
      <div><dt>address</dt><dd>${broker.address.replace("127.0.0.1:", ":") || "unknown"}</dd></div>
    </dl>
    ${broker.silent ? html`<p class="quiet">${silenceText(broker.silent)}</p>` : nothing}
    ${broker.registered && broker.lost_us ? html`<p class="warn countdown" role="timer">${icon("looking")} ${leftOfSession(m, broker.lost_us)}</p>` : nothing}
    ${handles(actions, broker)}
  </li>`;
}

/** @param {Broker} broker @param {boolean} official */
function controllerBadge(broker, official) {
  if (official) return badge("crown", "controller", "leading");
  // A zombie controller: according to its own last report it acts as controller, but the ensemble has another one.
  if (broker.is_controller) return badge("warn", "acts as controller", "warn");
  return nothing;
}

/** @param {Model} m @param {Actions} actions */
export function brokers(m, actions) {
  const registered = m.brokers.filter((b) => b.registered).length;
  const aside = html`<span class="sum"><b>${registered}</b> of ${m.brokers.length} registered${m.ensemble.stale ? `, ${lastKnown(m.ensemble)}` : ""}</span>`;
  return panel("brokers", "Brokers", aside, cards(m.brokers.map((broker) => brokerCard(broker, m, actions))));
}

/** One row per broker, one column per candidate: the controller according to each broker. @param {Model} m */
export function beliefs(m) {
  const { ensemble } = m;
  const columns = m.brokers.map((b) => b.id);
  const head = html`<tr><th scope="col">according to</th>
    ${columns.map((id) => html`<th scope="col" class="candidate ${id === ensemble.id ? "is" : ""}">broker ${id}</th>`)}
    <th scope="col" class="candidate ${ensemble.id < 0 ? "is" : ""}">none</th>
    <th scope="col">status, last report</th>
    <th scope="col" class="n" title="requests / writes of this broker that were rejected because of a stale controller epoch">fenced requests / writes</th></tr>`;
  const truth = html`<tr class="truth"><th scope="row">ZooKeeper</th>
    ${[...columns, -1].map((id) => mark(id === ensemble.id, ensemble.epoch, id, "agrees", id === ensemble.id))}
    <td>${ensemble.stale ? html`${icon("warn")} ${lastKnown(ensemble)}` : html`<span class="quiet">/controller</span>`}</td><td></td></tr>`;
  const body = html`<div class="scroll" tabindex="0" role="region" aria-label="Belief matrix, scrollable"><table class="matrix">
    <thead>${head}</thead><tbody>${truth}${m.brokers.map((broker) => beliefRow(broker, columns, ensemble.id))}</tbody>
  </table></div>`;
  const wrong = m.brokers.filter((b) => b.judged.verdict === "stale").length;
  const aside = html`<span class="sum ${wrong ? "warn" : ""}">${wrong
    ? html`${icon("warn")} ${plural(wrong, "broker")} wrong` : html`in ZooKeeper: <b>${controllerTerm(ensemble.id, ensemble.epoch)}</b>`}</span>`;
  return panel("beliefs", html`${term("Controller", "controller")} according to each broker`, aside, body);
}

/** @type {Record<import("../model.js").BeliefVerdict["verdict"], "ok" | "warn" | "empty">} */
const VERDICT_SHAPES = { agrees: "ok", stale: "warn", ahead: "warn", silent: "empty" };

/**
 * @param {boolean} here @param {number} epoch @param {number} id @param {import("../model.js").BeliefVerdict["verdict"]} verdict
 * @param {boolean} is whether this is the column of the ensemble's controller
 */
function mark(here, epoch, id, verdict, is) {
  const shape = VERDICT_SHAPES[verdict];
  return html`<td class="candidate ${verdict} ${is ? "is" : ""}">${here
    ? html`<span class="mark of-broker ${id < 0 ? "nobody" : `b${id % 8}`}">${icon(shape)}@${epoch}</span>` : nothing}</td>`;
}

/** @param {Broker} broker @param {number[]} columns @param {number} official */
function beliefRow(broker, columns, official) {
  const { verdict, text } = broker.judged;
  const known = columns.includes(broker.believes_id) ? broker.believes_id : -1;
  const hasReported = broker.age_ms !== null;
  return html`<tr class=${verdict} aria-label="Belief of broker ${broker.id}"><th scope="row">broker ${broker.id}</th>
    ${[...columns, -1].map((id) => mark(hasReported && id === known, broker.believes_epoch, id, verdict, id === official))}
    <td class="verdict"><span>${icon(VERDICT_SHAPES[verdict])} ${text}</span> <span class="age">${broker.silent ? nothing : age(broker.age_ms)}</span></td>
    <td class="n" title="requests / writes">${broker.fenced_requests} / ${broker.fenced_writes}</td></tr>`;
}

