// The predictions of each lesson, stored in the browser between visits.

/** @typedef {{chosen: number, right: number}} Prediction */

const KEY = "zabka.lessons";

/** @returns {Record<string, Prediction>} */
export function predictions() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return typeof found === "object" && found !== null ? found : {};
  } catch {
    return {};
  }
}

/** @param {string} lesson @param {Prediction} prediction */
export function notePrediction(lesson, prediction) {
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...predictions(), [lesson]: prediction }));
  } catch {
    // Lessons also work in a browser without storage.
  }
}
