// The label of a message in the diagram, its importance, and its description. Pure.

import { span } from "./times.js";

/**
 * @typedef {{id: number, sent_us: number, arrived_us: number | null, from: string, to: string, class: string, kind: string,
 *   subject: Record<string, any>, bytes: number | null, answers: number | null, lost: string | null}} Message
 * @typedef {"zab" | "client" | "kafka" | "beat"} Protocol
 */

/** @type {{name: Protocol, title: string, classes: string[], on: boolean}[]} Groups of messages that can be shown and hidden. */
export const GROUPS = [
  { name: "zab", title: "ZAB", classes: ["election", "discovery", "synchronisation", "broadcast"], on: true },
  { name: "client", title: "ZooKeeper clients", classes: ["session", "client"], on: true },
  { name: "kafka", title: "Kafka", classes: ["controller", "replication", "data", "group", "admin"], on: true },
];
/** @type {{name: string, title: string, classes: string[], on: boolean}[]} Hidden by default. */
export const CHATTER = [
  { name: "fetch", title: "fetches", classes: ["fetch"], on: false },
  { name: "ping", title: "pings", classes: ["ping"], on: false },
];

/** @param {Message} message @returns {Protocol} */
export function protocol(message) {
  if (message.class === "ping" || message.class === "fetch") return "beat";
  return GROUPS.find((group) => group.classes.includes(message.class))?.name ?? "kafka";
}

/** Any other end that is not a node of the cluster: the arrival of messages to it is unknown. */
const OUTSIDE = "client";

/** Whether it did not arrive, as far as the nodes know. @param {Message} message */
export const isLost = (message) => message.arrived_us === null && message.to !== OUTSIDE;

/** @param {Message} message */
export const isAnswer = (message) => message.kind.endsWith(" answer");

const PHASES = ["discovery", "synchronisation"];

/** The priority of a label where labels overlap: 0 before 3; 4 is only shown on hover. @param {Message} message */
export function rank(message) {
  if (isAnswer(message)) return message.subject.error ? 2 : 4;
  if (message.class === "controller" || PHASES.includes(message.class)) return 0;
  if (["PROPOSAL", "multi", "watch", "REQUEST"].includes(message.kind)) return 1;
  if (message.class === "election" || message.class === "session") return 2;
  return 3;
}

/** @param {Message} message */
export function label(message) {
  const { kind, subject } = message;
  if (kind === "Notification") return `vote ${subject.vote}`;
  if (kind === "PROPOSAL" || kind === "REQUEST") return `${kind} ${subject.op}`;
  if (kind === "watch") return `watch: ${tail(subject.path)}`;
  if (kind === "multi") return `multi ${operations(subject)}`;
  if (kind === "connect" && subject.session !== "0x0") return "connect again";
  if (isAnswer(message) && subject.error) return String(subject.error);
  if (typeof subject.path === "string") return `${kind} ${tail(subject.path)}`;
  return kind;
}

/** The end of a path, which is more specific than its beginning. @param {unknown} path */
function tail(path) {
  const parts = String(path).split("/").filter(Boolean);
  return parts.length <= 2 ? `/${parts.join("/")}` : `…/${parts.slice(-2).join("/")}`;
}

/** @param {Record<string, any>} subject */
function operations(subject) {
  const found = /** @type {string[]} */ (subject.names ?? []).map((each) => each.split(" ")[0]);
  return `[${[...new Set(found)].join(", ")}]`;
}

/** All details of a message, by lines, for hovering. @param {Message} message @param {(us: number) => string} when */
export function details(message, when) {
  const took = message.arrived_us === null ? "" : `, took ${span(message.arrived_us - message.sent_us)}`;
  const lines = [`${message.from} → ${message.to}: ${message.kind}`, `${message.class}, sent ${when(message.sent_us)}${took}`];
  if (message.lost) lines.push(message.arrived_us === null ? `${isLost(message) ? "never arrived" : "time of arrival unknown"}: ${message.lost}` : message.lost);
  else if (message.arrived_us === null) lines.push("had not arrived when the run ended");
  for (const [name, value] of Object.entries(message.subject)) {
    if (name === "names") lines.push(...value);
    else if (name === "count") lines.push(`${value} in total`);
    else lines.push(`${name.replaceAll("_", " ")} ${Array.isArray(value) ? value.join(", ") : value}`);
  }
  if (message.bytes !== null) lines.push(`${message.bytes.toLocaleString("en-GB")} bytes`);
  return lines;
}

/** The subject of a message, on one line. @param {Message} message */
export function subject(message) {
  return Object.entries(message.subject)
    .map(([name, value]) => (name === "names" ? value.join("; ") : `${name.replaceAll("_", " ")} ${Array.isArray(value) ? value.join(", ") : value}`))
    .join(", ");
}
