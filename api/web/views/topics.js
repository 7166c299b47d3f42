// Topics: creation, configuration, deletion.

import { html, nothing } from "lit-html";

import { requests } from "../actions.js";
import { source } from "../source/source.js";
import { badge, icon, select, send, submit } from "./parts.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../model.js").Topic} Topic
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("../store.js").State} State
 */

const UNCLEAN = "unclean.leader.election.enable";
const MIN_ISR = "min.insync.replicas";
const NEW_TOPIC = "+ new topic";
const KEPT = "";
const REMOVED = "default";

/** @param {State} state @param {Model} m @param {Actions} actions @param {() => void} changed */
export function createForm(state, m, actions, changed) {
  if (!source().live) return nothing;
  const { ui } = state;
  const open = ui.config === NEW_TOPIC;
  const toggle = () => {
    ui.config = open ? null : NEW_TOPIC;
    changed();
  };
  const create = submit(async (fields, form) => {
    /** @type {Record<string, string>} */
    const config = {};
    if (fields.min_isr) config[MIN_ISR] = fields.min_isr;
    if (fields.unclean) config[UNCLEAN] = fields.unclean;
    const answer = await actions.send(requests.createTopic({
      name: fields.name, partitions: Number(fields.partitions), replication_factor: Number(fields.replication_factor), config,
    }));
    if (!answer?.ok) return;
    form.reset();
    ui.config = null;
    changed();
  });
  return html`<button type="button" class="small" aria-expanded=${open ? "true" : "false"} aria-controls="new-topic" @click=${toggle}>
      ${open ? "Close" : "Create topic"}</button>
    <form id="new-topic" class="row" aria-label="Create topic" ?hidden=${!open} @submit=${create}>
      <label class="field"><span>name</span><input name="name" required maxlength="249" pattern="[a-zA-Z0-9._\\-]+" placeholder="orders" autocomplete="off"></label>
      <label class="field"><span>partitions</span><input name="partitions" type="number" min="1" max="10000" value="3" required></label>
      <label class="field"><span>replicas</span><input name="replication_factor" type="number" min="1" max="255" value="${Math.min(3, Math.max(1, m.brokers.length))}" required></label>
      <label class="field"><span>${MIN_ISR}</span><input name="min_isr" type="number" min="1" max="255" placeholder="default"></label>
      ${select("new-topic", "unclean", UNCLEAN, [{ value: "", text: "default" }, "true", "false"])}
      <button class="primary" ?disabled=${actions.off !== ""}>Create</button>
    </form>`;
}

/**
 * @param {State} state @param {Topic} topic @param {number} columns @param {Actions} actions @param {() => void} changed
 * @param {unknown} summary next to the name
 */
export function topicHead(state, topic, columns, actions, changed, summary) {
  const { ui } = state;
  const open = ui.config === topic.name;
  const toggle = () => {
    ui.config = open ? null : topic.name;
    changed();
  };
  const all = topic.partitions.map(({ topic: name, partition }) => ({ topic: name, partition }));
  return html`<tr class="topic"><td colspan=${columns}><div class="topic-line">
      <h3>${topic.name}</h3>${topic.deleting ? badge("warn", "being deleted", "warn") : nothing}${summary}
      ${Object.entries(topic.config).map(([key, value]) => html`<code class="override">${key}=${value}</code>`)}
      ${source().live ? html`<span class="push">
        ${send(actions, requests.elect("PREFERRED", all), "Preferred leaders", { name: `Elect the preferred leaders of ${topic.name}` })}
        <button type="button" class="small" aria-expanded=${open ? "true" : "false"} aria-label="Configure ${topic.name}" @click=${toggle}>${open ? "Close" : "Configure"}</button>
        ${deletion(state, topic, actions, changed)}
      </span>` : nothing}</div>
    ${open ? configForm(state, topic, actions, changed) : nothing}</td></tr>`;
}

/** Deletion cannot be undone, so it takes two presses. @param {State} state @param {Topic} topic @param {Actions} actions @param {() => void} changed */
function deletion(state, topic, actions, changed) {
  const { ui } = state;
  const arm = (/** @type {string | null} */ name) => () => {
    ui.armed = name;
    changed();
  };
  const armed = ui.armed === topic.name;
  const sure = () => {
    ui.armed = null;
    // The row and this button will disappear: keep the focus in this part of the page.
    document.getElementById("partitions")?.focus();
    void actions.send(requests.deleteTopic(topic.name));
  };
  // A single button keeps the focus between the presses.
  return html`<button type="button" class="small danger ${armed ? "sure" : ""}" aria-label="${armed ? "Really delete" : "Delete"} ${topic.name}"
    @click=${armed ? sure : arm(topic.name)} @blur=${armed ? arm(null) : nothing}>${armed ? html`${icon("warn")} Really delete` : "Delete"}</button>`;
}

/** @param {State} state @param {Topic} topic @param {Actions} actions @param {() => void} changed */
function configForm(state, topic, actions, changed) {
  const change = submit(async (fields) => {
    /** @type {Record<string, string | null>} */
    const body = {};
    const put = (/** @type {string} */ key, /** @type {string} */ value) => {
      if (value !== KEPT) body[key] = value === REMOVED ? null : value;
    };
    put(UNCLEAN, fields.unclean);
    put(MIN_ISR, fields.min_isr);
    if (fields.key) put(fields.key, fields.value || REMOVED);
    if (Object.keys(body).length === 0) return;
    const answer = await actions.send(requests.configure(topic.name, body));
    if (!answer?.ok) return;
    state.ui.config = null;
    changed();
  });
  const keep = { value: KEPT, text: "keep current value" };
  const drop = { value: REMOVED, text: "remove override" };
  return html`<form class="row" aria-label="Configure ${topic.name}" @submit=${change}>
    ${select(`config-${topic.name}`, "unclean", UNCLEAN, [keep, "true", "false", drop])}
    ${select(`config-${topic.name}`, "min_isr", MIN_ISR, [keep, "1", "2", "3", "4", "5", drop])}
    <label class="field"><span>another key</span><input name="key" placeholder="retention.ms" autocomplete="off"></label>
    <label class="field"><span>its value (empty removes it)</span><input name="value" autocomplete="off"></label>
    <button class="primary" ?disabled=${actions.off !== ""}>Apply</button>
  </form>`;
}
