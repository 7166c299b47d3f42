// The number of records that a partition has lost, from the losses that its replicas reported. Several replicas may
// lose the same records, so each offset counts once. A topic that is deleted and created again has the same offsets
// again; its id distinguishes it from the earlier one. journal/losses.py does the same. Pure.

/**
 * @typedef {import("./fold.js").Loss} Loss
 * @typedef {import("./fold.js").PartitionView} PartitionView
 * @typedef {import("./fold.js").RoleView} RoleView
 * @typedef {{gone: number, gone_committed: number, gone_open: number}} Lost  Records that a replica has lost, how many of them
 *   were committed at least, and how many of these are in losses that no user has acknowledged.
 */

/** @type {Lost} */
export const NOTHING_LOST = { gone: 0, gone_committed: 0, gone_open: 0 };

/** The number of leader epochs of a partition whose highest high watermark is kept. */
const EPOCHS_MAX = 100;

/**
 * Note the high watermark that a replica reported in its role. A follower keeps the high watermark of an earlier leader
 * epoch until it rises: only a rise proves that these records were committed in this epoch.
 * @param {PartitionView} partition @param {RoleView} role @param {number} highWatermark
 */
export function noteReport(partition, role, highWatermark) {
  const before = role.high_watermark;
  role.high_watermark = highWatermark;
  if (role.is_leader || (before !== null && highWatermark > before)) noteReached(partition, role.leader_epoch, highWatermark);
}

/**
 * Note that a replica's high watermark reached this offset in that leader epoch.
 * @param {PartitionView} partition @param {number} leaderEpoch @param {number} highWatermark
 */
export function noteReached(partition, leaderEpoch, highWatermark) {
  const { reached } = partition;
  reached[leaderEpoch] = Math.max(highWatermark, reached[leaderEpoch] ?? 0);
  const epochs = Object.keys(reached);
  if (epochs.length > EPOCHS_MAX) delete reached[Math.min(...epochs.map(Number))];
}

/**
 * The lost records of each partition that has any, by its name.
 * @param {Loss[]} losses @param {number} acknowledged_seq users acknowledged losses up to this event
 * @param {Record<string, string>} topicIds of the present topics, by name: losses of deleted topics do not count @returns {Map<string, Lost>}
 */
export function lostByPartition(losses, acknowledged_seq, topicIds) {
  /** @type {Map<string, Loss[]>} */
  const byName = new Map();
  for (const loss of losses) {
    if (loss.topic_id && Object.hasOwn(topicIds, loss.topic) && topicIds[loss.topic] !== loss.topic_id) continue;
    const name = `${loss.topic}-${loss.partition}`;
    const found = byName.get(name);
    if (found) found.push(loss);
    else byName.set(name, [loss]);
  }
  return new Map([...byName].map(([name, found]) => [name, {
    gone: covered(found.map((loss) => [loss.first_offset, loss.last_offset + 1])), gone_committed: committedAtLeast(found),
    gone_open: committedAtLeast(found.filter((loss) => loss.seq > acknowledged_seq)),
  }]));
}

/** How many committed records these losses of one partition include at least. @param {Loss[]} losses */
export const committedAtLeast = (losses) => covered(losses.map((loss) => [loss.first_offset, loss.first_offset + loss.committed_at_least]));

/** How many offsets are in at least one of these ranges. @param {[number, number][]} spans first offset, and the end (excluded) */
function covered(spans) {
  let [sum, end] = [0, -Infinity];
  for (const [from, to] of [...spans].sort((a, b) => a[0] - b[0])) {
    sum += Math.max(0, to - Math.max(from, end));
    end = Math.max(end, to);
  }
  return sum;
}
