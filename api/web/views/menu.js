// Menus: popovers next to their buttons.

/** A menu opens below its button, or above if there is no space. @param {Event} event */
export function placed(event) {
  const menu = /** @type {HTMLElement} */ (event.currentTarget);
  if (/** @type {ToggleEvent} */ (event).newState !== "open") return;
  const button = menu.parentElement?.querySelector(`[popovertarget="${menu.id}"]`);
  if (!button) return;
  const { right, top, bottom } = button.getBoundingClientRect();
  const below = bottom + 190 < innerHeight;
  Object.assign(menu.style, {
    right: `${Math.max(8, document.documentElement.clientWidth - right)}px`, top: below ? `${bottom + 4}px` : "auto",
    bottom: below ? "auto" : `${innerHeight - top + 4}px`,
  });
}

/** A menu closes after a choice. @param {Event} event */
export function closed(event) {
  const menu = /** @type {HTMLElement} */ (event.currentTarget);
  if (event.target instanceof HTMLButtonElement) menu.hidePopover();
}
