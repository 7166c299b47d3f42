"""No invariant is vacuous: each has something to judge in the seeds that are run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from journal.judges.cause_chains import NAME as CAUSE_CHAINS
from journal.judges.invariants import default_checkers
from journal.judges.zab_invariants import zab_checkers
from simulation.judges import kafka_rules, peer_audit, replication_audit
from simulation.judges.heard_sessions import NAME as HEARD_SESSIONS
from tests.simulation.judged_table import HUNDRED, Table

DOCUMENT = Path(__file__).parents[2] / "docs" / "explanation" / "judges.md"
FEW = {"chaos": range(2), "ensemble": range(5), "read-only": range(1)}
OF_WORKLOADS = {"linearizable writes", "reads and watches", "read-only service", "records", "groups"}


def _every_invariant() -> set[str]:
    checkers = [each.name for each in (*default_checkers(), *zab_checkers()) if each.judged is not None]
    told = f"{replication_audit.__doc__}{kafka_rules.__doc__}"
    of_logs = set(re.findall(r"^([A-Z]\w+)  +", told, re.MULTILINE))
    assert len(of_logs) == 13
    of_peers = {
        peer_audit.ACKNOWLEDGEMENTS,
        peer_audit.QUORUMS,
        peer_audit.SNAPSHOTS,
        peer_audit.PROCESS_CONSISTENCY,
        HEARD_SESSIONS,
    }
    return {*checkers, *of_logs, *of_peers, *OF_WORKLOADS, CAUSE_CHAINS}


def test_every_invariant_has_something_to_judge_in_a_few_seeds() -> None:
    table = Table().play(FEW)

    assert table.problems == []
    assert set(table.times) == _every_invariant()
    assert [name for name, times in table.times.items() if not times] == []


def test_the_table_of_a_hundred_seeds_names_every_invariant_and_none_is_vacuous() -> None:
    rows = dict(re.findall(r"^\| (.+?) \| ([\d,]+) \| \d+ \|$", DOCUMENT.read_text(), re.MULTILINE))

    assert set(rows) == _every_invariant()
    assert [name for name, times in rows.items() if int(times.replace(",", "")) == 0] == []
    assert sum(len(seeds) for seeds in HUNDRED.values()) == 100


@pytest.mark.long
def test_every_invariant_has_something_to_judge_in_a_hundred_seeds() -> None:
    table = Table().play(HUNDRED)

    assert table.problems == []
    assert [name for name in sorted(_every_invariant()) if not table.times[name]] == []
