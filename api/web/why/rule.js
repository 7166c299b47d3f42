// A rule next to an event: one sentence, our source, Kafka's or ZooKeeper's class, and the references.

import { html, nothing } from "lit-html";

/**
 * @typedef {{name: string, url: string}} Link
 * @typedef {{name: string, sentence: string, source: {path: string, symbol: string, line?: number | null}, theirs: Link, references: Link[]}} Rule
 */

/** The address of one of our functions on this server. @param {Rule["source"]} source */
export const sourceLink = ({ path, symbol }) => `/source/${path}#${encodeURIComponent(symbol)}`;

/** A name with possible line breaks after its dots, for narrow columns. @param {string} name */
const breakable = (name) => name.split(".").map((part, i) => html`${i ? html`.<wbr>` : nothing}${part}`);

/** @param {Rule | null} rule */
export function ruled(rule) {
  if (!rule) return nothing;
  return html`<div class="rule"><p>${rule.sentence}</p><p class="sources">
    <a href=${sourceLink(rule.source)} target="_blank">${rule.source.path}${rule.source.line ? `:${rule.source.line}` : ""}<span class="unseen">, ${rule.source.symbol}</span></a>
    ${[rule.theirs, ...rule.references].map((link) => html` <a href=${link.url} target="_blank" rel="noopener">${breakable(link.name)}</a>`)}</p></div>`;
}
