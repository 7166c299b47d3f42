// Selects the topics and partitions to draw: by the filter, folded or unfolded, a page at a time. Pure.

/**
 * @typedef {import("./model.js").Topic} Topic
 * @typedef {import("./model.js").Partition} Partition
 * @typedef {{filter: string, trouble: boolean, unfolded: Map<string, boolean>, pages: Map<string, number>}} Filter
 *   The user's input. The page of a topic is stored under the topic's name (which may be any word, `constructor` too), the
 *   page of the list of topics under "".
 * @typedef {{page: number, pages: number, from: number, to: number, of: number}} Place  Counted from 0; `to` is excluded.
 * @typedef {{topic: Topic, partitions: Partition[], unfolded: boolean, place: Place}} Shown  `partitions` are those of the page.
 */

/** A topic with more partitions than this is one line until the user unfolds it. */
export const FOLDED_ABOVE = 12;
export const ROWS_MAX = 25;
export const TOPICS_MAX = 20;
/** The key for the page of the list of topics: no topic has an empty name. */
export const TOPICS = "";

/** Whether a partition has a problem. @param {Partition} p */
export const troubled = (p) => !p.deleting && (p.offline || p.unserved !== "" || p.unwritable != null || p.out_of_sync.length > 0 || p.gone_open > 0);

/**
 * The topics and partitions to draw.
 * @param {Topic[]} topics @param {Filter} wanted @returns {{shown: Shown[], place: Place}}
 */
export function partitionsShown(topics, { filter, trouble, unfolded, pages }) {
  const text = filter.trim().toLowerCase();
  const found = topics.flatMap((topic) => {
    const whole = topic.name.toLowerCase().includes(text);
    const lets = (/** @type {Partition} */ p) => (!trouble || troubled(p)) && (whole || `${p.topic}-${p.partition}`.toLowerCase().includes(text));
    const let_through = whole && !trouble ? topic.partitions : topic.partitions.filter(lets);
    return let_through.length || (whole && !trouble) ? [{ topic, partitions: let_through, asked: !whole || trouble }] : [];
  });
  const place = placed(found.length, pages.get(TOPICS) ?? 0, TOPICS_MAX);
  const shown = found.slice(place.from, place.to).map(({ topic, partitions, asked }) => {
    const open = unfolded.get(topic.name) ?? (asked || partitions.length <= FOLDED_ABOVE);
    const rows = placed(open ? partitions.length : 0, pages.get(topic.name) ?? 0, ROWS_MAX);
    return { topic, partitions: partitions.slice(rows.from, rows.to), unfolded: open, place: rows };
  });
  return { shown, place };
}

/** @param {number} of @param {number} wanted @param {number} size @returns {Place} */
function placed(of, wanted, size) {
  const pages = Math.max(1, Math.ceil(of / size));
  const page = Math.max(0, Math.min(wanted, pages - 1));
  return { page, pages, from: page * size, to: Math.min(of, (page + 1) * size), of };
}
