// The colours of the style sheet, and hatchings of them, for drawing on a canvas.

/**
 * @typedef {"ground" | "panel" | "sunk" | "edge" | "edge-strong" | "ink" | "quiet" | "accent" | "ok" | "warn" | "bad" | "warn-ground"
 *   | "bad-ground" | "ok-ground" | "on-broker"} Name
 */

const NAMES = /** @type {Name[]} */ (["ground", "panel", "sunk", "edge", "edge-strong", "ink", "quiet", "accent", "ok", "warn", "bad", "warn-ground",
  "bad-ground", "ok-ground", "on-broker"]);
const BROKERS = 8;
const TILE = 8;
const DOT = 2;
const WIDTHS_MAX = 4_000;

export class Palette {
  constructor() {
    const style = getComputedStyle(document.documentElement);
    const read = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
    this.colors = /** @type {Record<Name, string>} */ (Object.fromEntries(NAMES.map((name) => [name, read(name)])));
    this.brokers = Array.from({ length: BROKERS }, (_, i) => read(`b${i}`));
    this.font = getComputedStyle(document.body).fontFamily;
    this.scale = parseFloat(read("px")) || 1;
    this.size = 12 * this.scale;
    /** @type {Map<string, CanvasPattern | string>} */
    this.hatchings = new Map();
    /** @type {Map<string, import("./looks.js").Look>} The looks of spans in these colours. */
    this.looks = new Map();
    /** @type {Map<string, number>} */
    this.widths = new Map();
  }

  /** The width of a text in a font, in pixels, measured once. @param {CanvasRenderingContext2D} ctx @param {string} font @param {string} text */
  width(ctx, font, text) {
    const key = `${font}\n${text}`;
    let found = this.widths.get(key);
    if (found === undefined) {
      ctx.font = font;
      found = ctx.measureText(text).width;
      if (this.widths.size >= WIDTHS_MAX) this.widths.clear();
      this.widths.set(key, found);
    }
    return found;
  }

  /** The part of a text that fits. @param {CanvasRenderingContext2D} ctx @param {string} font @param {string} text @param {number} width */
  fitted(ctx, font, text, width) {
    if (this.width(ctx, font, text) <= width) return text;
    let cut = text.length - 1;
    while (cut > 1 && this.width(ctx, font, `${text.slice(0, cut)}…`) > width) cut -= 1;
    return `${text.slice(0, cut)}…`;
  }

  /** @param {number} id -1 for none */
  broker(id) {
    return id < 0 ? this.colors.quiet : this.brokers[id % BROKERS];
  }

  /** Slanted lines of one colour on another. @param {CanvasRenderingContext2D} ctx @param {string} line @param {string} ground @param {number} thickness */
  hatched(ctx, line, ground, thickness = 2.4) {
    return this.#tiled(ctx, `${line} ${ground} ${thickness}`, line, TILE, (draw) => {
      draw.fillStyle = ground;
      draw.fillRect(0, 0, TILE, TILE);
      draw.strokeStyle = line;
      draw.lineWidth = thickness;
      draw.beginPath();
      for (const shift of [-TILE, 0, TILE]) {
        draw.moveTo(shift - 2, TILE + 2);
        draw.lineTo(shift + TILE + 2, -2);
      }
      draw.stroke();
    });
  }

  /** A line of dashes. @param {CanvasRenderingContext2D} ctx @param {string} color @param {number} dash @param {number} gap */
  dashed(ctx, color, dash, gap) {
    return this.#tiled(ctx, `dashes ${color} ${dash} ${gap}`, color, dash + gap, (draw) => {
      draw.fillStyle = color;
      draw.fillRect(0, 0, dash, dash + gap);
    });
  }

  /** A column of dots. @param {CanvasRenderingContext2D} ctx @param {string} color */
  dotted(ctx, color) {
    return this.#tiled(ctx, `dots ${color}`, color, DOT * 2.5, (draw) => {
      draw.fillStyle = color;
      draw.fillRect(0, 0, DOT * 2.5, DOT);
    });
  }

  /**
   * A pattern of tiles of that size, created once; the plain colour if patterns are not available.
   * @param {CanvasRenderingContext2D} ctx @param {string} key @param {string} color @param {number} size @param {(draw: CanvasRenderingContext2D) => void} drawn
   */
  #tiled(ctx, key, color, size, drawn) {
    let found = this.hatchings.get(key);
    if (found === undefined) {
      const scale = Math.max(1, devicePixelRatio);
      const tile = document.createElement("canvas");
      tile.width = tile.height = Math.round(size * scale);
      const draw = /** @type {CanvasRenderingContext2D} */ (tile.getContext("2d"));
      draw.scale(scale, scale);
      drawn(draw);
      const pattern = ctx.createPattern(tile, "repeat");
      pattern?.setTransform(new DOMMatrix().scale(1 / scale));
      found = pattern ?? color;
      this.hatchings.set(key, found);
    }
    return found;
  }
}
