// The lecture of a page without another one: the lessons in their order, with notes. On a live cluster, it begins with a
// healthy cluster and ends with a script.

/** @type {import("./file.js").Play} */
const HEALTHY = {
  title: "A healthy cluster", tab: "tracks",
  notes: "Each lane is a node or a partition, and time goes to the right.\nPoint at the controller, the ensemble's leader, and the leader of one partition.\nStart a producer in the Lab first, so that the lanes move.",
};

/** @type {[string, string, string][]} The lesson, its title, and the notes. */
const LESSONS = [
  ["controller-killed", "The controller is killed", "Ask how a cluster knows that a broker is dead.\nThe answer is the session: nothing happens until it expires."],
  ["leader-killed", "A partition's leader is killed", "Ask who decides, and who is a candidate.\nThen show that the leader epoch is higher by one."],
  ["follower-lags", "A follower falls behind", "Ask what a write waits for with acks=all.\nThe ISR is what makes acks=all both safe and fast."],
  ["last-replica", "The last replica", "Ask which is better: no leader, or a leader with less data.\nCompare the two runs side by side."],
  ["zombie-controller", "A zombie controller", "Ask how a process can tell that it was asleep.\nIt cannot: the others must reject its requests by their epoch."],
  ["zab-leader-killed", "The ensemble's leader is killed", "Ask which writes may be missing afterwards.\nA quorum has every committed write, so the next leader has it too."],
  ["quorum-lost", "No quorum", "Ask whether producers notice.\nThe brokers continue to serve, but no new leader can be elected."],
  ["high-watermark", "A follower truncates committed records", "Ask what a new follower may delete from its log.\nThis is the case for leader epochs (KIP-101)."],
  ["preferred-leader", "The preferred leader", "Ask who leads after a restart.\nLoad stays uneven until a preferred leader election."],
  ["acks", "acks=1", "Ask what the producer knows when a write is acknowledged.\nShow the lost record in the tracks."],
  ["aborted-record", "A record of an aborted transaction", "Ask what a consumer reads.\nThe record is in the log; read_committed consumers skip it."],
  ["cut-one-way", "A link that works one way", "Ask whether the leader keeps its session.\nReceiving is not enough: the ensemble must receive too."],
  ["reassignment-interrupted", "A reassignment is interrupted", "Ask what the next controller knows.\nThe plan is in ZooKeeper before the first step."],
];

/** A script of two faults, on this cluster. @type {import("./file.js").Play} */
const TWO_FAULTS = {
  title: "Live: a broker dies, then the network splits",
  notes: "Press g to run the script. It takes half a minute, and heals at the end.\nAsk before the split which side can still write.\nReset the cluster afterwards.",
  script: {
    driver: "world", name: "two-faults", title: "A broker dies, then the network splits", subjects: ["election", "network"],
    hypothesis: "After the last fault has ended, the cluster recovers, and no acknowledged record is lost.", peers: 3, brokers: 3,
    steps: [
      { type: "At", ms: 5000 }, { type: "Kill", nodes: ["broker-2"] },
      { type: "At", ms: 8000 }, { type: "Split", sides: [["broker-1", "peer-1", "peer-2"], ["broker-3", "peer-3"]] },
      { type: "At", ms: 20000 }, { type: "Heal" }, { type: "Restart", nodes: ["broker-2"] }, { type: "At", ms: 30000 },
    ],
  },
};

/** The lecture of a page; of a file without lessons, its moment alone. @param {import("../source/source.js").Source} source @returns {import("./file.js").LectureFile} */
export function standard({ live, tabs, opening }) {
  const lessons = LESSONS.map(([lesson, title, notes]) => ({ title, notes, lesson }));
  const here = { title: "The moment of this file", notes: "", tab: opening.tab ?? "tracks", ...(opening.at == null ? {} : { at: opening.at }) };
  const plays = live ? [HEALTHY, ...lessons, TWO_FAULTS] : tabs.includes("lessons") ? lessons : [here];
  return { zabka_lecture: 1, title: "Thirteen outages", keep_topics: [], keep_groups: [], plays };
}
