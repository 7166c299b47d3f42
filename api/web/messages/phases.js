// The phases in a window, from its events and messages: a failover of the controller, or an election of ZAB. Pure.

/**
 * @typedef {import("../fold.js").Entry} Entry
 * @typedef {import("../fold.js").ControllerTermView} ControllerTermView
 * @typedef {import("./words.js").Message} Message
 * @typedef {{name: string, title: string, from_us: number, to_us: number}} Phase
 */

const TOLD = ["LeaderAndIsr", "UpdateMetadata", "StopReplica"];
const BURST_US = 300_000;
const ELECT_US = 10_000_000;

/**
 * @param {Entry[]} events in order @param {Message[]} messages by sending time @param {(entry: Entry) => number} time
 * @param {ControllerTermView[]} [controller_terms] of the shown moment: they have the time at which a controller died or froze
 * @returns {Phase[]}
 */
export function phases(events, messages, time, controller_terms = []) {
  const ending = events.find((entry) => entry.type === "session_expired") ?? events.find((entry) => entry.type === "session_closed");
  const found = ending === undefined ? [] : failover(ending, events, messages, time, controller_terms);
  return found.length > 1 ? found : election(events, time);
}

/** @param {Entry} ending @param {Entry[]} events @param {Message[]} messages @param {(entry: Entry) => number} time @param {ControllerTermView[]} controller_terms @returns {Phase[]} */
function failover(ending, events, messages, time, controller_terms) {
  const closed = events.find((entry) => entry.type === "session_closed" && String(entry.session_id) === String(ending.session_id));
  const gone = closed === undefined ? time(ending) : time(closed);
  // The death or freeze may be before the window, so it is taken from the controller term, by the same clock as the
  // session's end.
  const lost = closed === undefined ? undefined : controller_terms.findLast(({ holder_lost_us, until_us }) =>
    holder_lost_us !== null && holder_lost_us <= closed.wall_us && (until_us === null || Math.abs(until_us - closed.wall_us) < ELECT_US));
  const began = lost === undefined || closed === undefined ? time(ending) : gone - (closed.wall_us - Number(lost.holder_lost_us));
  const elected = events.find((entry) => entry.type === "controller_elected" && time(entry) >= gone && time(entry) - gone < ELECT_US);
  const known = elected === undefined ? gone : time(elected);
  const decides = messages.find((each) => each.kind === "multi" && each.sent_us >= known && /state/.test((each.subject.names ?? []).join()));
  const tells = messages.find((each) => TOLD.includes(each.kind) && each.sent_us >= (decides?.sent_us ?? known));
  const last = tells === undefined ? undefined : lastAnswer(messages, tells.sent_us);
  /** @type {[string, string, number | undefined][]} */
  const marks = [
    lost === undefined ? ["expire", "from the expiry of the session until a quorum has closed it", closed === undefined ? undefined : gone]
      : ["detect", "from the controller's crash or pause until a quorum has closed its session", gone],
    ["elect", "until a broker is elected controller", elected === undefined ? undefined : known],
    ["read", "the controller reads the state of the affected partitions", decides?.sent_us ?? tells?.sent_us],
    ["decide", "the controller writes the new leaders, fenced by its epoch", decides === undefined ? undefined : tells?.sent_us],
    ["propagate", "the controller sends the changes to the brokers, and they respond", last],
  ];
  /** @type {Phase[]} */
  const out = [];
  let from_us = began;
  for (const [name, title, to_us] of marks) {
    if (to_us === undefined || to_us < from_us) continue;
    out.push({ name, title, from_us, to_us });
    from_us = to_us;
  }
  return out;
}

/** The arrival of the last response of a burst. @param {Message[]} messages @param {number} from */
function lastAnswer(messages, from) {
  let last = from;
  for (const each of messages) {
    if (each.sent_us < from || !TOLD.includes(each.kind.replace(" answer", ""))) continue;
    if (each.sent_us > last + BURST_US) break;
    last = Math.max(last, each.arrived_us ?? each.sent_us);
  }
  return last;
}

/** The newest election in these events. @param {Entry[]} events @param {(entry: Entry) => number} time @returns {Phase[]} */
function election(events, time) {
  const changes = events.filter((entry) => entry.type === "peer_state_changed");
  const leader = changes.filter((entry) => entry.state === "LEADING").at(-1)?.node;
  if (leader === undefined) return [];
  const own = changes.filter((entry) => entry.node === leader);
  const begin = own.findLastIndex((entry) => entry.state === "LOOKING");
  const since = own.slice(Math.max(0, begin));
  const at = (/** @type {string} */ state, /** @type {string} */ phase) => {
    const found = since.find((entry) => entry.state === state && entry.phase === phase);
    return found === undefined ? undefined : time(found);
  };
  const marks = [
    { name: "vote", title: "peers vote for a leader", us: at("LOOKING", "ELECTION") },
    { name: "discover", title: "the leader collects the accepted epochs of its followers", us: at("LEADING", "DISCOVERY") },
    { name: "synchronise", title: "followers synchronise with the leader's history", us: at("LEADING", "SYNCHRONIZATION") },
    { name: "broadcast", title: "the ensemble serves clients", us: at("LEADING", "BROADCAST") },
  ].filter((mark) => mark.us !== undefined);
  return marks.slice(0, -1).map(({ name, title, us }, place) => ({
    name, title, from_us: /** @type {number} */ (us), to_us: /** @type {number} */ (marks[place + 1].us),
  }));
}
