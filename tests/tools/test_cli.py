"""The `zabka` command finds each verb's module, and imports no other."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tools.cli import VERBS, load

LISTS_ITS_VERBS = """
import sys
from tools.cli import main
sys.argv = ["zabka", "--help"]
try:
    main()
except SystemExit as end:
    assert end.code == 0
print(sorted(name for name in sys.modules if name.split(".")[0] in ("tools", "compose", "simulation", "api")))
"""


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_module_that_is_its_command(verb: str) -> None:
    command = load(verb)
    assert command.name == verb or verb == "scenarios"
    assert command.help == VERBS[verb]


def test_listing_the_verbs_imports_none_of_their_modules() -> None:
    said = subprocess.run([sys.executable, "-c", LISTS_ITS_VERBS], capture_output=True, text=True, check=True).stdout
    assert all(f"  {verb} " in said for verb in VERBS)
    assert said.splitlines()[-1] == "['tools', 'tools.cli']"
