// The order and position of the lanes: rows with a name, a height and a content. Pure.

/**
 * @typedef {import("./spans.js").Span} Span
 * @typedef {import("./spans.js").Spans} Spans
 * @typedef {import("../partition_filter.js").Shown} Shown
 * @typedef {"marks" | "controller" | "belief" | "partition" | "replica" | "topic" | "peer" | "group" | "rate" | "rule"} RowKind
 * @typedef {{kind: RowKind, label: string, strong: boolean, top: number, height: number, lane: string, under: string, id: number,
 *   extent: number}} Row  `lane` is the key of its spans, `under` its partition; `extent` is the height including all
 *   rows that belong to it.
 * @typedef {{pinned: Row[], pinned_height: number, rows: Row[], height: number}} Layout  The pinned rows do not scroll.
 */

/** @type {Record<RowKind, number>} Heights in pixels. */
const HEIGHTS = { marks: 19, controller: 32, belief: 20, partition: 17, replica: 17, topic: 20, peer: 20, group: 20, rate: 46, rule: 9 };
/** With more partitions than this the lanes after them would be far away, so they are drawn first. */
const FEW = 8;

/** The maximum factor for stretching rows if there is space. */
const STRETCH_MAX = 1.45;

/**
 * @param {Spans} spans @param {Shown[]} topics what the filter lets through @param {number} axis the height of the axis
 * @param {number} scale of the text @param {number} room the height that is to be filled
 * @returns {Layout}
 */
export function layout(spans, topics, axis, scale, room) {
  const { pinned, rows } = chosen(spans, topics);
  const wanted = [...pinned, ...rows].reduce((sum, each) => sum + each.height, 0);
  const by = Math.max(scale, Math.min(scale * STRETCH_MAX, (room - axis - 8) / Math.max(1, wanted)));
  const [above, below] = [stack(axis, pinned, by), stack(0, rows, by)];
  return { pinned: above.rows, pinned_height: above.height, rows: below.rows, height: below.height };
}

/** @param {Spans} spans @param {Shown[]} topics */
function chosen(spans, topics) {
  const pinned = [
    row("marks", "Actions", "done", true), row("marks", "Effects", "came", true), row("rule", ""),
    row("controller", "Controller", "controller", true),
  ];
  const beliefs = ids(spans, "belief").map((id) => row("belief", `according to broker ${id}`, `belief:${id}`, false, id));
  const peers = ids(spans, "peer").map((id) => row("peer", `peer ${id}, ZAB`, `peer:${id}`, false, id));
  const groups = [...spans.lanes.keys()].filter((lane) => lane.startsWith("group:")).map((lane) => row("group", `group ${lane.slice("group:".length)}`, lane, false));
  const rates = [...spans.rates.values()].map((rate) => row("rate", rate.kind === "producer" ? `${rate.topic}, acked/s` : `${rate.topic}, read/s`, rate.id, false));
  const partitions = topics.flatMap((each) => topicRows(spans, each));
  const count = topics.reduce((sum, each) => sum + each.partitions.length, 0);
  const clients = [...groups, ...rates];
  const behind = [...peers, ...(peers.length && clients.length ? [row("rule", "")] : []), ...clients];
  const parts = count > FEW ? [beliefs, behind, partitions] : [beliefs, partitions, behind];
  const all = parts.filter((part) => part.length).flatMap((part, i) => (i ? [row("rule", ""), ...part] : part));
  return { pinned, rows: all };
}

/** @param {Spans} spans @param {Shown} shown */
function topicRows(spans, { topic, partitions, unfolded }) {
  if (!unfolded) return [row("topic", `${topic.name}, ${topic.partitions.length} partitions`, `topic:${topic.name}`, true)];
  return partitions.flatMap(({ topic: name, partition, replicas }, i) => {
    const of = `${name}-${partition}`;
    const on = [...new Set([...replicas, ...(spans.replicas.get(of) ?? [])])].sort((a, b) => a - b);
    const head = { ...row("partition", of, `trouble:${of}`, true, -1, of), extent: HEIGHTS.partition + on.length * HEIGHTS.replica };
    return [...(i ? [row("rule", "")] : []), head, ...on.map((id) => row("replica", `on broker ${id}`, `replica:${of}:${id}`, false, id, of))];
  });
}

/** @param {Spans} spans @param {string} kind */
const ids = (spans, kind) => [...spans.lanes.keys()].filter((lane) => lane.startsWith(`${kind}:`)).map((lane) => Number(lane.split(":")[1])).sort((a, b) => a - b);

/** @param {RowKind} kind @param {string} label @param {string} lane @param {boolean} strong @param {number} id @param {string} under */
const row = (kind, label, lane = "", strong = false, id = -1, under = "") => ({ kind, label, strong, top: 0, height: HEIGHTS[kind], lane, under, id, extent: HEIGHTS[kind] });

/** @param {number} from @param {Row[]} rows @param {number} by @returns {{rows: Row[], height: number}} */
function stack(from, rows, by) {
  let top = from;
  const placed = rows.map((each) => {
    // Whole pixels: positions between pixels are blurred, and take longer to draw.
    const height = Math.round(each.height * by);
    const at = { ...each, top, height, extent: height * (each.extent / each.height) };
    top += height;
    return at;
  });
  return { rows: placed, height: top };
}

/** The row at a height. @param {Row[]} rows @param {number} y @returns {Row | null} */
export const rowAt = (rows, y) => rows.find((each) => y >= each.top && y < each.top + each.height) ?? null;
