"""axe-core, the accessibility checker, run in a page. npm installs it for developers, from package-lock.json."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Page

PROGRAM = Path(__file__).parents[2] / "node_modules/axe-core/axe.min.js"
INSTALL = "npm ci --include=dev --ignore-scripts"
CHECK = """async () => {
  let changes = 0;
  const observer = new MutationObserver(() => { changes += 1; });
  observer.observe(document, {subtree: true, childList: true});
  let before, found;
  for (let round = 0; round < 5 && before !== changes; round += 1) {
    await new Promise(resolve => setTimeout(() => requestAnimationFrame(resolve), 100));
    before = changes;
    found = await axe.run(document, {resultTypes: ["violations", "incomplete"]});
  }
  observer.disconnect();
  const of = ({id, impact, nodes}) => nodes.map(({target, html}) =>
    `${id} (${impact}): ${target.join(" ")}: ${html.slice(0, 200)}`);
  return {violations: found.violations.flatMap(of), unsure: found.incomplete.flatMap(of), passed: found.passes.length};
}"""
"""Runs axe again if elements are added or removed while it runs: axe identifies them by their positions."""
UNSURE = "color-contrast "
"""Rule whose result axe leaves open where another element covers the text, or where the text is an icon."""


class Found(NamedTuple):
    """Result of axe for one view: violations, results that axe leaves to people, and the number of passed rules."""

    violations: list[str]
    unsure: list[str]
    passed: int


def check(page: Page) -> Found:
    """Run all rules of axe on the page. Skip the test if axe is not installed; fail in CI, where it should be."""
    if not PROGRAM.exists():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"needs axe-core in node_modules: {INSTALL}")
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(PROGRAM.read_text())
    found = page.evaluate(CHECK)
    unsure = [each for each in found["unsure"] if not each.startswith(UNSURE)]
    return Found(found["violations"], unsure, found["passed"])
