"""The soak test: each check detects the problem that it is for, and a short run passes."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench import soak
from bench.__main__ import app_of
from bench.servers import descendants
from bench.soak import Records, Usage, levels, send_garbage, take
from zabka.testing.live.cluster import LiveCluster


def grown(kib: Sequence[int], descriptors: Sequence[int], begin_s: float = 0.0) -> Usage:
    samples = [(1000.0 + 10 * n, size, count) for n, (size, count) in enumerate(zip(kib, descriptors, strict=True))]
    return {("broker-1", 7): [(begin_s, kib[0], descriptors[0]), *samples]}


def problems(usage: Usage) -> list[str]:
    return [problem for measurement in levels(usage, 900.0) for problem in measurement.problems]


def test_constant_memory_and_descriptor_use_is_not_reported() -> None:
    usage = grown([100_000, 102_000] * 10, [30, 40] * 10)
    assert problems(usage) == []
    assert [measurement.work for measurement in levels(usage, 900.0)] == ["broker-1, pid 7"]


def test_memory_growth_over_five_per_cent_is_a_problem() -> None:
    assert problems(grown([100_000] * 10 + [106_000] * 10, [30] * 20)) == ["grew from 97.7 to 103.5 MiB"]


def test_leaked_descriptors_are_a_problem() -> None:
    assert problems(grown([100_000] * 20, [30] * 10 + [90] * 10)) == ["went from 30 to 90 descriptors"]


def test_growth_of_a_recently_started_process_is_not_checked() -> None:
    assert levels(grown(range(1, 20_000, 1000), [1] * 20, begin_s=990.0), 900.0) == []


def test_sample_counts_descriptors_and_skips_an_exited_process(tmp_path: Path) -> None:
    usage: Usage = {}
    with (tmp_path / "held").open("w"):
        take(usage, {"this": os.getpid()}, 1.0)
    take(usage, {"this": os.getpid(), "ended": 2**22 + 1}, 2.0)

    (held, released) = usage.pop(("this", os.getpid()))
    assert held[2] == released[2] + 1 and held[1] > 10_000
    assert usage == {}
    assert os.getpid() in descendants(os.getppid())


def test_garbage_sent_to_servers_leaks_no_connections() -> None:
    stopping, made = threading.Event(), list[int]()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        usage: Usage = {}
        take(usage, {"this": os.getpid()}, 0.0)
        address = listening.getsockname()
        thread = threading.Thread(target=lambda: made.append(send_garbage([address], 1, stopping)))
        thread.start()
        for _ in range(5):
            listening.accept()[0].close()
        stopping.set()
        thread.join()
        take(usage, {"this": os.getpid()}, 1.0)

    assert made[0] >= 5
    ((_, _, before), (_, _, after)) = usage["this", os.getpid()]
    assert after <= before


def test_missing_or_changed_acknowledged_record_is_reported(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create(soak.TOPIC, soak.PARTITIONS, 1)
    assert zabka_cluster.produce(soak.TOPIC, ["kept"]) == 0
    records = Records()
    records.acknowledge(0, 0, b"kept")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(soak, "READ_S", 5.0)
        assert records.violations(zabka_cluster.bootstrap) == []
        records.acknowledge(0, 0, b"other")
        records.acknowledge(1, 7, b"never")
        assert records.violations(zabka_cluster.bootstrap) == [
            "two records were acknowledged for (0, 0)",
            "(0, 0): b'other' was acknowledged, b'kept' is stored",
            "(1, 7): b'never' was acknowledged and is missing",
        ]


@pytest.mark.long
def test_short_soak_run_passes() -> None:
    result = CliRunner().invoke(app_of("soak"), ["--quick"])

    assert result.exit_code == 0, result.output
    assert "no violations" in result.output
