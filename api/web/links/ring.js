// The positions of the nodes on the ring, and the lines between them. Pure.

/**
 * @typedef {{name: string, x: number, y: number, peer: boolean}} Place
 * @typedef {{x: number, y: number}} Point
 */

export const SIZE = 460;
const RADIUS = 172;
/** The distance from a node's centre to the start of a line. */
export const NODE_RADIUS = 27;
const BEND = 26;

/** Brokers on the upper half, from left to right, peers on the lower half. @param {string[]} brokers @param {string[]} peers @returns {Place[]} */
export function places(brokers, peers) {
  return [...row(brokers, -1, false), ...row(peers, 1, true)];
}

/** @param {string[]} names @param {1 | -1} side @param {boolean} peer @returns {Place[]} */
function row(names, side, peer) {
  return names.map((name, i) => {
    const angle = Math.PI * (1 - (i + 0.5) / names.length);
    return { name, peer, x: SIZE / 2 + RADIUS * Math.cos(angle) * 1.12, y: SIZE / 2 + side * RADIUS * Math.sin(angle) };
  });
}

/** The path of a link, slightly bent so that the two directions do not overlap. @param {Point} from @param {Point} to @param {boolean} straight */
export function path(from, to, straight) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / length, dy / length];
  const bend = straight ? 0 : BEND;
  const [a, b] = [{ x: from.x + ux * NODE_RADIUS, y: from.y + uy * NODE_RADIUS }, { x: to.x - ux * NODE_RADIUS, y: to.y - uy * NODE_RADIUS }];
  const middle = { x: (a.x + b.x) / 2 - uy * bend, y: (a.y + b.y) / 2 + ux * bend };
  return `M${one(a.x)} ${one(a.y)}Q${one(middle.x)} ${one(middle.y)} ${one(b.x)} ${one(b.y)}`;
}

/** The node at a point, or null. @param {Place[]} all @param {Point} at */
export const nodeAt = (all, at) => all.find((place) => Math.hypot(place.x - at.x, place.y - at.y) <= NODE_RADIUS + 8) ?? null;

/** @param {number} value */
const one = (value) => value.toFixed(1);
