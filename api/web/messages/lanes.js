// The lanes, one per process, and the role of each process at the moment. Pure.

/**
 * @typedef {import("../fold.js").ClusterState} ClusterState
 * @typedef {import("./words.js").Message} Message
 * @typedef {{name: string, role: string}} Lane
 */

const ORDER = ["peer", "broker", "client"];
const NUMBERED = /^(.*?)-?(\d+)?$/;

/** @param {string} name @returns {[number, string, number]} */
function place(name) {
  const [, word, number] = NUMBERED.exec(name) ?? ["", name, ""];
  const at = ORDER.indexOf(word);
  return [at < 0 ? ORDER.length : at, word, Number(number ?? 0)];
}

/** @param {string} a @param {string} b */
function inOrder(a, b) {
  const [one, other] = [place(a), place(b)];
  return one[0] - other[0] || one[1].localeCompare(other[1]) || one[2] - other[2];
}

/** Peers, brokers, then all other senders and receivers. @param {Message[]} messages @param {ClusterState} state @returns {Lane[]} */
export function lanes(messages, state) {
  const names = new Set([
    ...Object.keys(state.peers).map((id) => `peer-${id}`),
    ...Object.keys(state.brokers).map((id) => `broker-${id}`),
    ...messages.flatMap((message) => [message.from, message.to]),
  ]);
  return [...names].sort(inOrder).map((name) => ({ name, role: role(name, state) }));
}

/** @param {string} name @param {ClusterState} state */
function role(name, state) {
  const [, word, id] = NUMBERED.exec(name) ?? ["", "", ""];
  if (word === "peer") return peerRole(Number(id), state);
  if (word !== "broker") return "";
  const broker = state.brokers[id ?? ""];
  if (broker?.process === "down" || broker?.process === "paused") return broker.process;
  return state.controller_id === Number(id) ? `controller, epoch ${state.controller_epoch}` : broker?.registered === false ? "not registered" : "";
}

/** @param {number} id @param {ClusterState} state */
function peerRole(id, state) {
  const peer = state.peers[String(id)];
  if (peer === undefined) return "";
  if (peer.process === "down" || peer.process === "paused") return peer.process;
  if (peer.state === "LEADING") return peer.phase === "BROADCAST" ? `leader, epoch ${peer.current_epoch}` : "leader, not serving yet";
  return peer.state === "FOLLOWING" ? "follower" : peer.state.toLowerCase();
}
