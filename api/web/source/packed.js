// Text that was compressed with gzip and written as base64, as `api/exports/document.py` packs it.

/** @param {string} packed @returns {Promise<string>} Raises TypeError or DOMException if it is something else. */
export async function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed.trim()), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
