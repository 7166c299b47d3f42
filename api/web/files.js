// Files that a user opens, drops on the page, or saves: JSON files go to the part of the page that knows their format.

/** @typedef {(content: any, name: string) => boolean} Taker  Takes parsed JSON; false if it has another format. Raises NoMoment. */

/** @type {Taker[]} */
const takers = [];

/** @param {Taker} taker */
export const takes = (taker) => void takers.push(taker);

/** Give a JSON file to the part that takes it. False if none does. @param {File} file */
export async function takeJson(file) {
  if (!file.name.endsWith(".json")) return false;
  let content;
  try {
    content = JSON.parse(await file.text());
  } catch {
    return false;
  }
  return takers.some((taker) => taker(content, file.name));
}

/** Let the user save a file. @param {File} file */
export function offer(file) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = file.name;
  link.click();
  URL.revokeObjectURL(link.href);
}
