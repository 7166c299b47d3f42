// "Add a fault for the next request like this": the fields of a request fault for requests like a message. Pure.

/** @typedef {import("./words.js").Message} Message */

const ZOOKEEPER = ["session", "client"];
/** Messages to a peer that are no operations of clients. */
const OTHERS = ["connect", "watch", "ping"];
/** The other end of a connection whose client has no name. */
const NAMELESS = "client";

/**
 * The fields of the form of a request fault; null if the message is no request that a rule can match.
 * @param {Message} message @returns {Record<string, string> | null}
 */
export function likeMessage({ from, to, class: group, kind, subject }) {
  if (kind.endsWith(" answer")) return null;
  if (to.startsWith("peer-")) {
    if (!ZOOKEEPER.includes(group) || OTHERS.includes(kind)) return null;
    return { request: kind, node: to, ...(typeof subject.path === "string" ? { path: subject.path } : {}) };
  }
  if (!to.startsWith("broker-")) return null;
  const topic = group === "controller" ? "" : topicOf(subject.names);
  return {
    request: kind, node: to, ...(from === NAMELESS ? {} : { client_id: from }), ...(topic ? { topic } : {}),
    ...(subject.group ? { group: subject.group } : {}),
  };
}

/** The topic of the first partition that a message names, such as `orders-0 from 7`; empty if only its id is known. @param {string[] | undefined} names */
function topicOf(names) {
  const first = names?.[0] ?? "";
  return first.startsWith("topic ") ? "" : first.split(" ")[0].replace(/-\d+$/, "");
}
