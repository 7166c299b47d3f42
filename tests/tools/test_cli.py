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

LOADS_ALL = """
import sys
from tools.cli import VERBS, load
for verb in VERBS:
    load(verb)
print(sorted({"fastapi", "uvicorn", "httpx", "pyspark", "simulation.world"} & set(sys.modules)))
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


def test_the_options_of_a_verb_are_known_without_what_carries_it_out() -> None:
    said = subprocess.run([sys.executable, "-c", LOADS_ALL], capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"
