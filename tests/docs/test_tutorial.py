"""Runs the tutorial's commands in the order of the page.

Each part is a test: its commands print the output that the page shows.
"""

from __future__ import annotations

import re

import pytest

from tests.docs.documents import DOCS, ROOT, blocks, commands
from tests.docs.started import Started

TUTORIAL = (DOCS / "tutorial/three-elections.md").read_text()
PARTS = [part for part in re.split(r"^(?=## )", TUTORIAL, flags=re.MULTILINE) if "```sh" in part]
IN_THE_TOUR = frozenset(commands((ROOT / "README.md").read_text()))
"""Commands that the test of the README runs already."""
_MARK = "---- block"
_CHANGES = re.compile(r"(…)|(\s+)|(\d+)")


def title(part: str) -> str:
    return part.splitlines()[0].removeprefix("## ")


def pattern_of(line: str) -> re.Pattern[str]:
    """Compile an expected line of output to a pattern. A number matches any number, and an ellipsis matches
    anything.
    """
    out, at = "", 0
    for found in _CHANGES.finditer(line):
        out += re.escape(line[at : found.start()])
        out += ".*" if found.group(1) else r"\s+" if found.group(2) else r"\d+"
        at = found.end()
    return re.compile(out + re.escape(line[at:]))


def steps(part: str) -> list[tuple[str, list[str]]]:
    """Return each block of shell commands with the output lines that the tutorial shows directly after it."""
    found = blocks(part)
    return [
        (block.text, following[0].text.strip("\n").splitlines() if following else [])
        for index, block in enumerate(found)
        if block.language == "sh" and block.text.strip() not in IN_THE_TOUR
        for following in [[b for b in found[index + 1 : index + 2] if b.language == "text"]]
    ]


@pytest.mark.parametrize("part", PARTS, ids=title)
@pytest.mark.timeout(300)
def test_tutorial_commands_print_the_documented_output(started: Started, part: str) -> None:
    shown = steps(part)
    started.settle()
    done = started.run("\n".join(f"echo '{_MARK}'\n{script}" for script, _ in shown))
    assert done.returncode == 0, done.stdout + done.stderr
    for (script, expected), output in zip(shown, done.stdout.split(_MARK + "\n")[1:], strict=True):
        lines = iter(output.splitlines())
        for line in expected:
            pattern = pattern_of(line.strip())
            assert any(pattern.fullmatch(one.strip()) for one in lines), f"{script}\ndid not say\n{line}\nbut\n{output}"
