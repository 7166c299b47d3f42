"""`make soak`: a short one holds, and its judges find what they look for."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench import soak
from bench.garbage import Garbage
from bench.usage import Sample, Series, Usage, descendants, sample
from zabka.testing.live.cluster import LiveCluster


def _grown(kib: list[int], descriptors: list[int]) -> Usage:
    usage = Usage()
    samples = [
        Sample(1000.0 + 10 * n, size, count) for n, (size, count) in enumerate(zip(kib, descriptors, strict=True))
    ]
    usage.series[("broker-1", 7)] = Series("broker-1", 7, [Sample(0.0, kib[0], descriptors[0]), *samples])
    return usage


def test_level_memory_and_descriptors_are_no_finding() -> None:
    assert _grown([100_000, 102_000] * 10, [30, 40] * 10).rising(900.0) == []


def test_memory_that_rises_by_more_than_five_per_cent_is_named() -> None:
    usage = _grown([100_000] * 10 + [106_000] * 10, [30] * 20)

    assert usage.rising(900.0) == ["broker-1 (pid 7) grew from 97.7 to 103.5 MiB"]


def test_descriptors_that_leak_are_named() -> None:
    usage = _grown([100_000] * 20, [30] * 10 + [90] * 10)

    assert usage.rising(900.0) == ["broker-1 (pid 7) went from 30 to 90 descriptors"]


def test_a_process_that_has_just_begun_is_not_judged() -> None:
    usage = Usage()
    usage.series[("peer-1", 8)] = Series("peer-1", 8, [Sample(1000.0 + 10 * n, 1000 * n + 1, 1) for n in range(20)])

    assert usage.rising(900.0) == []


def test_a_sample_counts_this_process_and_one_that_is_gone_has_none(tmp_path: Path) -> None:
    with (tmp_path / "held").open("w"):
        held = sample(os.getpid(), 1.0)
    released = sample(os.getpid(), 2.0)

    assert held is not None and released is not None
    assert held.descriptors == released.descriptors + 1
    assert held.resident_kib > 10_000
    assert os.getpid() in descendants(os.getppid())
    assert sample(2**22 + 1, 3.0) is None


def test_garbage_reaches_the_port_and_everything_it_opened_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        before = sample(os.getpid(), 0.0)
        with Garbage([listening.getsockname()], seed=1) as garbage:
            for _ in range(5):
                listening.accept()[0].close()
        after = sample(os.getpid(), 0.0)

    assert garbage.connections >= 5
    assert before is not None and after is not None
    assert after.descriptors <= before.descriptors


def test_an_acknowledged_record_that_is_missing_or_another_is_named(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create(soak.TOPIC, soak.PARTITIONS, 1)
    assert zabka_cluster.produce(soak.TOPIC, ["kept"]) == 0
    said = [soak.Acknowledged(0, 0, b"kept"), soak.Acknowledged(0, 0, b"other"), soak.Acknowledged(1, 7, b"never")]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(soak, "READ_S", 5.0)
        assert soak.missing(zabka_cluster.bootstrap, said[:1]) == []
        assert soak.missing(zabka_cluster.bootstrap, said) == [
            "two records were acknowledged for one offset",
            "(0, 0): b'other' was acknowledged, b'kept' stands there",
            "(1, 7): b'never' was acknowledged and is gone",
        ]


@pytest.mark.long
def test_a_short_soak_holds() -> None:
    result = CliRunner().invoke(soak.app, ["--minutes", "1", "--harm-every", "15"])

    assert result.exit_code == 0, result.output
    assert "all of it holds" in result.output
