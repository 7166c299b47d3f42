// The words of the page, and what they mean.

import { html } from "lit-html";

/** @type {[string, string][]} The words of the page, and what they mean. */
export const WORDS = [
  ["controller", "the broker that holds the znode /controller; it elects the leaders of partitions"],
  ["epoch", "a number that rises with each new controller, partition leader or ZAB leader; a lower one is outdated and is refused"],
  ["ISR", "in-sync replicas: the replicas of a partition that have caught up, from which its next leader is chosen"],
  ["ZAB", "the protocol by which the servers of the ZooKeeper ensemble agree on the order of writes"],
  ["session", "the connection of a broker to ZooKeeper; without contact it expires, and the broker's registration is deleted"],
];

/** What a word of the page means. @param {string} word */
export const meaning = (word) => WORDS.find(([each]) => each === word)?.[1] ?? "";

/** A word of a heading with its meaning as a tooltip. @param {string} text @param {string} word */
export const term = (text, word = text) => html`<abbr class="term" title=${meaning(word)}>${text}</abbr>`;
