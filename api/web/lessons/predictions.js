// What was predicted in which lesson, kept by the browser from one visit to the next.

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
    // A browser that keeps nothing shows the lessons all the same.
  }
}
