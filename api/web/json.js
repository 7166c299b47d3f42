// JSON with integers beyond 2^53 kept exact, as decimal strings: session ids and digests use all of their 64 bits,
// and two sessions that differ only in the last ones must not become one.

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
const LONG = /(?<=[:,[\s])-?\d{16,}(?![\d.eE])/g;

/** @param {string} text @returns {any} */
export function parseExact(text) {
  const exact = (/** @type {string} */ token) => (isLongInteger(token) ? `"${token}"` : token);
  try {
    return JSON.parse(text.replace(LONG, exact));
  } catch {
    // A string contained something like a number, and the added quotes have broken it: check every token, which takes
    // longer.
    return JSON.parse(text.replace(TOKEN, exact));
  }
}

/** @param {string} token */
function isLongInteger(token) {
  return token.length > 15 && token[0] !== '"' && /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token));
}
