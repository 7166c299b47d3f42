// The first screen of a cluster without topics: what to do first, and the words of the page.

import { html } from "lit-html";

import { requests } from "../actions.js";
import { hash } from "../time/hash.js";
import { WORDS } from "./glossary.js";
import { icon } from "./parts.js";

/**
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../time/moment.js").Moment} Moment
 */

const TOPIC = "orders";
const FIRST_LESSON = "controller-killed";

/** Create a topic, and start a producer that writes to it. @param {Model} m @param {Actions} actions */
async function createAndProduce(m, actions) {
  const replication_factor = Math.min(3, Math.max(1, m.brokers.length));
  const created = await actions.send(requests.createTopic({ name: TOPIC, partitions: 3, replication_factor, config: {} }));
  if (created?.ok) await actions.send(requests.startWorkload({ topic: TOPIC, acks: "all", records_per_s: 50 }));
}

/** @param {Model} m @param {Moment} moment @param {Actions} actions */
export function begin(m, moment, actions) {
  const lesson = hash({ ...moment.place, tab: "lessons", lesson: FIRST_LESSON });
  return html`<section class="begin" aria-labelledby="begin-title">
    <h3 id="begin-title">This cluster has no topics yet</h3>
    <p class="row"><button type="button" class="primary" ?disabled=${actions.off !== ""} @click=${() => void createAndProduce(m, actions)}>Create a topic with a producer</button>
      <a class="button" href=${lesson}>Start lesson 1</a><a class="button" href="#scenarios">Open a scenario</a></p>
    <details><summary>The tour, in five steps</summary><ol>
      <li>Create a topic with a producer: its partitions appear as tracks.</li>
      <li>Kill the controller, in the list of nodes, and watch: its session expires, another broker becomes controller, and partitions get new leaders.</li>
      <li>Press <kbd>e</kbd> for the last election, and <kbd>←</kbd> <kbd>→</kbd> for single events. <b>Why</b> shows the causes.</li>
      <li>Press <kbd>End</kbd> to go back to live, and start the broker again: it returns to the ISRs.</li>
      <li>Pause the controller for longer than its session timeout, then resume it: the other brokers reject its requests.</li></ol></details>
    <dl class="words">${WORDS.map(([word, text]) => html`<div><dt>${icon("empty")} ${word}</dt><dd>${text}</dd></div>`)}</dl>
  </section>`;
}
