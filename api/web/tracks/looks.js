// The look of a span, by its kind of row and its state: colours, thickness, and words. Equal spans share one look, so
// that they are drawn together.

/**
 * @typedef {import("./palette.js").Palette} Palette
 * @typedef {import("./layout.js").RowKind} RowKind
 * @typedef {import("./spans.js").Span} Span
 * @typedef {{fill: string | CanvasPattern, narrow: string, alpha: number, thick: (height: number) => number, outline: string, dashes: number[] | null,
 *   cross: "" | "down" | "paused", ink: string, ground: string, bold: boolean, weight: number, words: (span: Span) => string[]}} Look
 *   `narrow` is the colour of bars that are too narrow for the pattern `fill`; it is empty if `fill` is a colour.  With `dashes` (empty: a solid line) a line of the colour `fill` is drawn instead of a bar; `cross` is drawn at the start of that
 *   process state; `ground` is the background of the words; of spans on one pixel the one of the highest `weight` is visible.
 */

const inset = (/** @type {number} */ by) => (/** @type {number} */ height) => height - 2 * by;

/** The defaults. @type {Omit<Look, "fill" | "ink" | "words">} */
const PLAIN = { narrow: "", alpha: 1, thick: inset(2), outline: "", dashes: null, cross: "", ground: "", bold: false, weight: 0 };

const whole = (/** @type {Span} */ { text }) => [text];
const none = () => [];

/** @type {Partial<Record<RowKind, (ctx: CanvasRenderingContext2D, palette: Palette, span: Span) => Look>>} */
const KINDS = {
  controller(ctx, palette, { state, id }) {
    const { colors } = palette;
    const color = palette.broker(id);
    const common = { ...PLAIN, thick: inset(4) };
    if (state === "active") {
      return { ...common, fill: color, ink: colors["on-broker"], bold: true, words: ({ text, id: of, epoch }) => [text, `${of}@${epoch}`] };
    }
    if (state === "dead") {
      return { ...common, fill: palette.hatched(ctx, color, colors.panel), narrow: color, outline: color, ink: colors.ink, ground: colors.panel, weight: 1,
        words: ({ text }) => [text, text.split(",")[0]] };
    }
    return { ...common, fill: palette.hatched(ctx, colors.bad, colors["bad-ground"]), narrow: colors.bad, outline: colors.bad, ink: colors.bad, ground: colors.panel,
      bold: true, weight: 2, words: () => ["no controller", "none"] };
  },
  belief(ctx, palette, { state, id, process }) {
    const { colors } = palette;
    if (state === "down") return gone(palette);
    if (state === "silent") return silent(palette);
    if (state === "right") {
      const frozen = process === "paused";
      return { ...PLAIN, fill: palette.broker(id), alpha: frozen ? 0.55 : 0.88, ink: frozen ? colors.ink : colors["on-broker"], bold: true,
        words: ({ text }) => [text, text.split(" ")[0]] };
    }
    return { ...PLAIN, fill: palette.hatched(ctx, colors.warn, colors["warn-ground"]), narrow: colors.warn, ink: colors.warn, ground: colors.panel, bold: true, weight: 2,
      words: ({ text }) => [`⚠ ${text}`, "⚠ wrong", "⚠"] };
  },
  replica(_, palette, { state, id, process }) {
    const { colors } = palette;
    const fill = palette.broker(id);
    const acts = process === "running" || process === "unknown";
    const common = { ...PLAIN, cross: /** @type {Look["cross"]} */ (acts ? "" : process === "paused" ? "paused" : "down") };
    if (state === "leader") {
      return { ...common, fill, thick: inset(1.5), alpha: acts ? 1 : 0.38, ink: acts ? colors["on-broker"] : colors.ink, bold: true, weight: 1,
        words: ({ text, epoch }) => [text, `leader ${epoch}`] };
    }
    if (state === "in_sync") return { ...common, fill, thick: () => 7 * palette.scale, alpha: acts ? 0.6 : 0.24, ink: colors.ink, words: none };
    return { ...common, fill: colors.warn, dashes: [4, 3], ink: colors.warn, ground: colors.panel, weight: 2, words: () => ["not in the ISR", "out"] };
  },
  topic(ctx, palette, { state }) {
    const { colors } = palette;
    const common = { ...PLAIN, thick: inset(4), ground: colors.panel, bold: true, words: (/** @type {Span} */ { text }) => [text, text.split(" ")[0]] };
    if (state === "whole") return { ...common, fill: colors.ok, alpha: 0.35, ink: colors.ok, words: none };
    if (state === "offline") return { ...common, fill: palette.hatched(ctx, colors.bad, colors["bad-ground"]), narrow: colors.bad, ink: colors.bad, weight: 2 };
    return { ...common, fill: colors.warn, alpha: 0.4, ink: colors.warn, weight: 1 };
  },
  peer(ctx, palette, { state, process }) {
    const { colors } = palette;
    if (state === "down") return gone(palette);
    if (state === "silent") return silent(palette);
    const frozen = process === "paused";
    if (state === "leading") {
      return { ...PLAIN, fill: colors.ok, alpha: frozen ? 0.4 : 1, ink: frozen ? colors.ink : colors["on-broker"], bold: true,
        words: ({ text, epoch }) => [text, `leads ${epoch}`] };
    }
    if (state === "looking") {
      return { ...PLAIN, fill: palette.hatched(ctx, colors.warn, colors["warn-ground"], 1.4), narrow: colors.warn, ink: colors.warn, ground: colors.panel, weight: 2,
        words: ({ text }) => [text, "looking"] };
    }
    const joins = state === "joining";
    return { ...PLAIN, fill: joins ? colors["warn-ground"] : colors["ok-ground"], alpha: frozen ? 0.5 : 1, outline: joins ? colors.warn : colors.edge,
      ink: colors.ink, weight: joins ? 1 : 0, words: ({ text, epoch }) => [text, `${state.slice(0, 6)} ${epoch}`] };
  },
  group(ctx, palette, { state, id }) {
    const { colors } = palette;
    if (state === "silent") return silent(palette);
    if (state === "rebalancing") {
      return { ...PLAIN, fill: palette.hatched(ctx, colors.warn, colors["warn-ground"], 1.4), narrow: colors.warn, ink: colors.warn, ground: colors.panel, weight: 2,
        words: ({ text }) => [text, "rebalancing"] };
    }
    const stable = state === "stable";
    return { ...PLAIN, fill: palette.broker(id), alpha: stable ? 0.88 : 0.3, ink: stable ? colors["on-broker"] : colors.ink, weight: stable ? 1 : 0,
      words: ({ text, epoch }) => [text, `generation ${epoch}`, `${epoch}`] };
  },
  // A partition that is not served or not writable, or whose readers of committed records wait.
  partition(_, palette, { state }) {
    const { bad, warn } = palette.colors;
    if (state === "held") {
      return { ...PLAIN, fill: warn, alpha: 0.09, ink: warn, bold: true, words: ({ text }) => [text, text.split(" by ")[0], "held back"] };
    }
    return { ...PLAIN, fill: bad, alpha: 0.09, ink: bad, bold: true, weight: state === "offline" ? 2 : 1,
      words: ({ text }) => [text, TROUBLES[state] ?? state] };
  },
};

/** Short texts for a partition's problem. @type {Record<string, string>} */
const TROUBLES = { offline: "offline", orphan: "leader not running", blocked: "not writable" };

/** A process that has not reported anything. @param {Palette} palette @returns {Look} */
const silent = ({ colors }) => ({ ...PLAIN, fill: colors["edge-strong"], dashes: [2, 3], ink: colors.quiet, ground: colors.panel, words: whole });

/** A process that is down. @param {Palette} palette @returns {Look} */
function gone({ colors }) {
  return { ...PLAIN, fill: colors["edge-strong"], dashes: [], cross: "down", ink: colors.quiet, ground: colors.panel, weight: 2, words: () => ["down"] };
}

/** The look of a span. @param {CanvasRenderingContext2D} ctx @param {Palette} palette @param {RowKind} kind @param {Span} span @returns {Look} */
export function lookOf(ctx, palette, kind, span) {
  const key = `${kind} ${span.state} ${span.id} ${span.process}`;
  let found = palette.looks.get(key);
  if (found === undefined) {
    const made = KINDS[kind];
    if (made === undefined) throw new Error(`rows of ${kind} have no spans`);
    found = made(ctx, palette, span);
    palette.looks.set(key, found);
  }
  return found;
}
