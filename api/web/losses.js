// The number of records that a partition has lost, from the losses that its replicas reported. Several replicas may
// lose the same records, so each offset counts once. A topic that is deleted and created again has the same offsets
// again; its id distinguishes it from the earlier one. journal/losses.py does the same. Pure.

/**
 * @typedef {import("./fold.js").Loss} Loss
 * @typedef {{gone: number, gone_committed: number, gone_open: number}} Lost  Records that a replica has lost, how many of them
 *   were committed at least, and how many of these are in losses that no user has acknowledged.
 */

/** @type {Lost} */
export const NOTHING_LOST = { gone: 0, gone_committed: 0, gone_open: 0 };

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
