// The error of every reader of runs.

/** The source of runs has no response, or not the requested data. */
export class NoMoment extends Error {
  /** @param {string} message @param {number | null} oldest the oldest stored number, if that is the reason */
  constructor(message, oldest = null) {
    super(message);
    this.oldest = oldest;
  }
}
