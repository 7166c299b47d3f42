// The positions of the nodes on the ring, and the lines between them. Pure.

/**
 * @typedef {{name: string, x: number, y: number, radius: number, peer: boolean}} Place  `radius`: from the centre to the start of a line.
 * @typedef {{name: string, x: number, y: number, radius: number, below: boolean, of: string, label: string}} Client  Ends of link faults outside the ring.
 * @typedef {{x: number, y: number}} Point
 */

export const SIZE = 460;
const RADIUS = 172;
const NODE_RADIUS = 27;
const CLIENT_RADIUS = 10;
/** The height of a row of clients above or below the ring, with their names. */
export const ROW = 76;
const CHARACTER = 6.4;
const LABEL_MAX = 40;
const BEND = 26;
/** The bends to try, until a link touches no other node. */
const DETOURS = [0, 50, -50, 100, -100, 150, -150, 200, -200, 250, -250, 300, -300];
const NODE = /^(broker|peer)-\d+$/;
const ADDRESS = /^[0-9a-f.:/[\]]*[.:][0-9a-f.:/[\]]*$/i;

/** Brokers on the upper half, from left to right, peers on the lower half. @param {string[]} brokers @param {string[]} peers @returns {Place[]} */
export function places(brokers, peers) {
  return [...row(brokers, -1, false), ...row(peers, 1, true)];
}

/** @param {string[]} names @param {1 | -1} side @param {boolean} peer @returns {Place[]} */
function row(names, side, peer) {
  return names.map((name, i) => {
    const angle = Math.PI * (1 - (i + 0.5) / names.length);
    return { name, peer, radius: NODE_RADIUS, x: SIZE / 2 + RADIUS * Math.cos(angle) * 1.12, y: SIZE / 2 + side * RADIUS * Math.sin(angle) };
  });
}

/**
 * The clients of these faults, each once: those of ZooKeeper sessions below the ring, the others above it.
 * @param {{source: string, target: string}[]} faults @returns {Client[]}
 */
export function clients(faults) {
  const ends = faults.filter(({ source, target }) => source !== target).flatMap(({ source, target }) => [source, target]);
  const names = [...new Set(ends)].filter((end) => end !== "*" && !NODE.test(end));
  return [false, true].flatMap((below) => names.filter((name) => name.startsWith("session:") === below).map((name, i, row) => ({
    name, below, ...label(name, row.length), radius: CLIENT_RADIUS, x: SIZE * (i + 0.5) / row.length, y: below ? SIZE + 30 : -30,
  })));
}

/** The two lines of a client's label. @param {string} end @param {number} clients in the same row */
function label(end, clients) {
  const [of, name] = /^(client|session):(.*)$/s.exec(end)?.slice(1) ?? [ADDRESS.test(end) ? "address" : "client", end];
  const length = Math.min(LABEL_MAX, Math.floor(SIZE / clients / CHARACTER));
  return { of, label: name.length > length ? `${name.slice(0, length - 1)}…` : name };
}

/**
 * The faulty links between these places: `*` is each other node that the fault affects.
 * @template {{source: string, target: string}} F
 * @param {F[]} faults @param {Place[]} nodes @param {Client[]} outside @returns {{fault: F, from: Place | Client, to: Place | Client}[]}
 */
export function faultyLinks(faults, nodes, outside) {
  return faults.flatMap((fault) => {
    const { source, target } = fault;
    const at = (/** @type {string} */ end, /** @type {string} */ other) => (end === "*"
      ? nodes.filter(({ name, peer }) => name !== other && !other.startsWith(peer ? "client:" : "session:"))
      : [...nodes, ...outside].filter(({ name }) => name === end));
    return at(source, target).flatMap((from) => at(target, source).map((to) => ({ fault, from, to })));
  });
}

/**
 * The path of a link, slightly bent so that the two directions do not overlap, and bent further around other nodes.
 * @param {Place | Client} from @param {Place | Client} to @param {boolean} straight @param {Place[]} nodes
 */
export function path(from, to, straight, nodes) {
  const others = nodes.filter(({ name }) => name !== from.name && name !== to.name);
  const curves = DETOURS.map((detour) => curve(from, to, detour + (straight ? 0 : BEND)));
  const [a, middle, b] = curves.find((each) => others.every((node) => isClear(each, node))) ?? curves[0];
  return `M${one(a.x)} ${one(a.y)}Q${one(middle.x)} ${one(middle.y)} ${one(b.x)} ${one(b.y)}`;
}

/** Start, control point and end. @param {Place | Client} from @param {Place | Client} to @param {number} bend */
function curve(from, to, bend) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / length, dy / length];
  const middle = { x: (from.x + to.x) / 2 - uy * bend, y: (from.y + to.y) / 2 + ux * bend };
  return [toward(from, middle), middle, toward(to, middle)];
}

/** The point of a place's edge on the way to another point. @param {Place | Client} place @param {Point} point */
function toward(place, point) {
  const [dx, dy] = [point.x - place.x, point.y - place.y];
  const length = Math.hypot(dx, dy) || 1;
  return { x: place.x + dx / length * place.radius, y: place.y + dy / length * place.radius };
}

/** Whether a curve leaves a node alone. @param {Point[]} curve @param {Place} node */
function isClear([a, middle, b], node) {
  return Array.from({ length: 33 }, (_, i) => i / 32).every((t) => {
    const at = (/** @type {"x" | "y"} */ axis) => (1 - t) ** 2 * a[axis] + 2 * t * (1 - t) * middle[axis] + t ** 2 * b[axis];
    return Math.hypot(at("x") - node.x, at("y") - node.y) > node.radius + 5;
  });
}

/** The node at a point, or null. @param {Place[]} all @param {Point} at */
export const nodeAt = (all, at) => all.find((place) => Math.hypot(place.x - at.x, place.y - at.y) <= place.radius + 8) ?? null;

/** @param {number} value */
const one = (value) => value.toFixed(1);
