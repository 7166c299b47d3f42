"""Public interface of the fixtures, on which other projects can rely."""

from __future__ import annotations

import subprocess
import sys

from tests.testing.surface import SURFACE


def test_public_interface_equals_the_recorded_interface() -> None:
    """The public interface is the one recorded in `surface.txt`.

    The test runs in a separate process, so that imports of other tests have no effect.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", "from tests.testing.surface import text; print(text(), end='')"],
        capture_output=True, text=True, timeout=60, check=True, cwd=SURFACE.parents[2],
        env={"PYTHONPATH": str(SURFACE.parents[2])},
    )  # fmt: skip
    assert done.stdout == SURFACE.read_text(), (
        "the surface has changed: raise the version (a line gone or changed: major, a line new: minor), say it in "
        "CHANGELOG.md, and write the file anew: python -m tests.testing.surface"
    )
