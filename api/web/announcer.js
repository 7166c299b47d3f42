// Announcements for screen readers: the result of a burst of events, not each event. Pure.

import { plural } from "./format.js";
import { spoken } from "./sentences.js";

/**
 * @typedef {import("./fold.js").Entry} Entry
 * @typedef {import("./fold.js").ClusterState} ClusterState
 * @typedef {import("./sentences.js").Table} Table
 */

/** How long events are gathered, from the first on, before they are announced together. */
export const GATHERED_MS = 1000;
const NAMED_MAX = 2;

/** Whether an event is announced. @param {Table} table @param {Entry} entry */
export const isAnnounced = (table, entry) => entry.type === "leader_elected" || spoken(table, entry) !== "";

/**
 * The sentences for these events; `cluster` is the state after them. They have the last change of controller and leader,
 * the number of partitions, and every kind of loss.
 * @param {Table} table @param {Entry[]} told in order @param {ClusterState} cluster
 */
export function announcement(table, told, cluster) {
  /** @type {Map<string, Entry>} */
  const offices = new Map();
  /** @type {Set<string>} */
  const moved = new Set();
  /** @type {Map<string, string>} */
  const grave = new Map();
  for (const entry of told) {
    const partition = `${entry.topic}-${entry.partition}`;
    if (entry.type === "leader_elected") {
      moved.add(partition);
      if (entry.unclean) grave.set(`unclean ${partition}`, spoken(table, entry));
    } else if (entry.type === "records_lost") grave.set(`lost ${partition}`, spoken(table, entry));
    else offices.set(entry.type.startsWith("controller_") ? "controller" : entry.type, entry);
  }
  const sentences = [...offices.values()].map((entry) => spoken(table, entry));
  const standing = [...moved].filter((name) => name in cluster.partitions);
  const offline = standing.filter((name) => cluster.partitions[name].leader < 0);
  const lead = standing.length - offline.length;
  if (lead) sentences.push(`New leaders for ${plural(lead, "partition")}${offline.length ? "" : "; no partition is offline"}.`);
  sentences.push(...some(offline.map((name) => `${name} is offline.`), `${plural(offline.length, "partition")} are offline.`));
  const words = [...grave.values()].filter(Boolean);
  return [...sentences, ...words.slice(0, NAMED_MAX), ...(words.length > NAMED_MAX ? [`And ${words.length - NAMED_MAX} more.`] : [])].join(" ");
}

/** List a few of them, or give a summary of many. @param {string[]} each @param {string} counted */
const some = (each, counted) => (each.length > NAMED_MAX ? [counted] : each);
