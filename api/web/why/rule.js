// A rule next to an event: one sentence, our source, Kafka's or ZooKeeper's class, and the references.

import { html, nothing } from "lit-html";

import { source } from "../source/source.js";

/**
 * @typedef {{name: string, url: string}} Link
 * @typedef {{name: string, sentence: string, source: {path: string, symbol: string, line?: number | null}, theirs: Link, references: Link[]}} Rule
 */

/** A name with possible line breaks after its dots, for narrow columns. @param {string} name */
const breakable = (name) => name.split(".").map((part, i) => html`${i ? html`.<wbr>` : nothing}${part}`);

/** The place of one of our functions; a link if the source of runs has its text. @param {Rule["source"]} place */
function code(place) {
  const text = html`${place.path}${place.line ? `:${place.line}` : ""}<span class="unseen">, ${place.symbol}</span>`;
  const address = source().code(place);
  return address === null ? html`<code>${text}</code>` : html`<a href=${address} target="_blank">${text}</a>`;
}

/** @param {Rule | null} rule */
export function ruled(rule) {
  if (!rule) return nothing;
  return html`<div class="rule"><p>${rule.sentence}</p><p class="sources">
    ${code(rule.source)}
    ${[rule.theirs, ...rule.references].map((link) => html` <a href=${link.url} target="_blank" rel="noopener">${breakable(link.name)}</a>`)}</p></div>`;
}
