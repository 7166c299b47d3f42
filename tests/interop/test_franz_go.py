"""franz-go's own tests of its client, out of the Go module, against three brokers of ours.

Of its modules kgo's tests alone reach brokers; those of kadm, at the version that belongs to it, are about its types.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.interop_brokers import BrokerCluster, broker_cluster, tool

MODULE, VERSION = "github.com/twmb/franz-go", "v1.22.2"
FETCH_S = 180.0
BUILD_S = 240.0
SUITE_S = 420.0
RECORDS = 20_000
"""Of each run through a group; the suite's own 500,000 are for brokers on more than one machine."""
PASSED_MIN = 120
LEFT_OUT = {"TestTxnEtl": "there are no transactions"}
"""Not run, each for its reason."""
PASSED_OVER = {
    "Test848RegexBrokerResolves": "the newer protocol of groups, which Kafka 3.9 has not in ZooKeeper mode",
    "TestConsumeRegexShareSkipsInternal": "share groups, of Kafka 4.2",
    "TestSCRAMAuth": "connections are not authenticated",
    "TestSCRAMAuthBadCredentials": "connections are not authenticated",
    "TestShareGroup": "share groups, of Kafka 4.2",
    "TestShareGroupAckOnClose": "share groups, of Kafka 4.2",
    "TestShareGroupETL": "share groups, of Kafka 4.2",
    "TestShareGroupOffsetsAdmin": "share groups, of Kafka 4.2",
}
"""What the suite itself skips here, having asked the brokers what they serve."""
REACH_BROKERS = {"TestGroupETL", "TestGroupSimple", "TestPing", "TestConsumeRegex", "TestAddRemovePartitions"}
"""Some that cannot pass without brokers."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's directory, with its tests built in it.  Skips, saying why, where Go or the module cannot be had."""
    go = tool("go")
    home = tmp_path_factory.mktemp("franz-go")
    # Outside of any module, so that nothing but the version counts.
    fetched = subprocess.run(
        [go, "mod", "download", "-json", f"{MODULE}@{VERSION}"],
        cwd=home, capture_output=True, text=True, timeout=FETCH_S, check=False,
    )  # fmt: skip
    if fetched.returncode:
        pytest.skip(f"{MODULE} cannot be fetched: {fetched.stdout.strip()[-300:]}")
    shutil.copytree(json.loads(fetched.stdout)["Dir"], home / "source", copy_function=shutil.copyfile)
    for folder in [home / "source", *(each for each in (home / "source").rglob("*") if each.is_dir())]:
        folder.chmod(0o755)
    package = home / "source" / "pkg" / "kgo"
    built = subprocess.run(
        [go, "test", "-c", "-o", "kgo.test", "."],
        cwd=package, capture_output=True, text=True, timeout=BUILD_S, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr[-2000:]
    return package


@pytest.fixture(scope="module")
def cluster(suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    with broker_cluster(tmp_path_factory.mktemp("franz-go-brokers")) as running:
        yield running


def outcomes(said: str, outcome: str) -> set[str]:
    """The tests, without their parts, that ended so."""
    return set(re.findall(rf"(?m)^--- {outcome}: (\w+) ", said))


def test_franz_gos_own_tests_pass(suite: Path, cluster: BrokerCluster) -> None:
    left_out = "|".join(f"^{name}$" for name in LEFT_OUT)
    command = ["./kgo.test", "-test.v", f"-test.timeout={SUITE_S:.0f}s", f"-test.skip={left_out}"]
    settings = {"KGO_SEEDS": cluster.bootstrap, "KGO_TEST_RF": "3", "KGO_TEST_RECORDS": str(RECORDS)}
    with subprocess.Popen(
        command, cwd=suite, env={**os.environ, **settings}, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as running:  # fmt: skip
        try:
            said, _ = running.communicate(timeout=SUITE_S + 10)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            raise
    assert running.returncode == 0, f"{sorted(outcomes(said, 'FAIL'))}\n{said[-4000:]}"
    assert outcomes(said, "SKIP") == PASSED_OVER.keys()
    passed = outcomes(said, "PASS")
    assert passed >= REACH_BROKERS and len(passed) >= PASSED_MIN
