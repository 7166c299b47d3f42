"""Our authorizer and Kafka's AclAuthorizer: equal decisions, and one cluster that shares its ACLs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.free_ports import free_ports
from tests.broker_sim.authorizer.decision_cases import CASES, SUPER_USERS
from tests.interop.interop_brokers import BrokerCluster, broker_cluster
from tests.interop.interop_servers import running
from tests.interop.kafka_jars import classpath
from tests.interop.kafka_tools import Output, ToolServer, called
from tests.interop.real_kafka import KafkaServer
from zabka.broker_sim.configs.authorizer_keys import AUTHORIZER_CLASS
from zabka.cli import acls

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
ANSWERS = Path(__file__).parent / "kafka_jars" / "AclAnswers.java"
WITHIN_S = 60.0
SETTINGS = {"authorizer_class_name": AUTHORIZER_CLASS, "super_users": "User:ANONYMOUS"}


def test_decisions_equal_those_of_kafkas_authorizer(tmp_path: Path) -> None:
    lines = [f"{str(case.allows_if_no_acl).lower()}\t{case.acls}\t{case.question}\n" for case in CASES]
    with running("ours", 1, tmp_path) as ensemble:
        done = subprocess.run(
            ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classpath(), str(ANSWERS), ensemble.hosts,
             SUPER_USERS],
            input="".join(lines), capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    decisions = [line == "true" for line in done.stdout.splitlines() if line in ("true", "false")]
    assert len(decisions) == len(CASES), done.stderr[-3000:]
    wrong = [case for case, decision in zip(CASES, decisions, strict=True) if case.answer() is not decision]
    assert wrong == []


class Shared:
    """One of our brokers and an Apache Kafka broker on one ensemble, with Kafka's and our tool for ACLs."""

    def __init__(self, ours: BrokerCluster, kafka: KafkaServer, tools: ToolServer) -> None:
        self.ours = ours
        self.kafka = kafka
        self._tools = tools

    def kafkas(self, at: str, *arguments: str) -> Output:
        return self._tools.run("acls", "--bootstrap-server", at, *arguments)

    def zabka(self, at: str, *arguments: str) -> Output:
        return called(acls.main, "--bootstrap-server", at, *arguments)

    def listed(self) -> list[list[str]]:
        """Return the sorted lines of each tool's list of each broker: four lists, which have to be equal."""
        return [
            sorted(line.strip() for line in tool(at, "--list").out.splitlines() if line.strip())
            for tool in (self.kafkas, self.zabka)
            for at in (self.kafka.address, self.ours.bootstrap)
        ]

    def until(self, condition: Callable[[list[str]], bool]) -> list[str]:
        """Wait until all four lists are equal and meet the condition. Return the list."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            lists = self.listed()
            if all(each == lists[0] for each in lists) and condition(lists[0]):
                return lists[0]
            assert time.monotonic() < deadline, lists
            time.sleep(0.2)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    directory = tmp_path_factory.mktemp("shared")
    (directory / "ours").mkdir()
    with broker_cluster(directory / "ours", free_ports(1), **SETTINGS) as ours:
        kafka = KafkaServer(101, directory / "kafka", ours.ensemble.hosts, **SETTINGS)
        tools = ToolServer(directory)
        try:
            kafka.start()
            both = Shared(ours, kafka, tools)
            deadline = time.monotonic() + 3 * WITHIN_S
            while "Error" in both.kafkas(kafka.address, "--list").out:
                assert time.monotonic() < deadline, kafka.output()[-3000:]
            yield both
        finally:
            tools.close()
            kafka.kill()


def test_acls_of_each_broker_are_known_to_the_other(shared: Shared) -> None:
    brokers = (shared.ours.bootstrap, shared.kafka.address)
    for number, at in enumerate(brokers):
        for kind in ("literal", "prefixed"):
            who = ("--allow-principal", f"User:u{number}", "--deny-principal", "User:*", "--deny-host", "10.0.0.9")
            what = ("--operation", "Write", "--operation", "DescribeConfigs", "--topic", f"t{number}")
            added = shared.kafkas(at, "--add", *who, *what, "--resource-pattern-type", kind)
            assert (added.code, added.err) == (0, "")
            assert shared.zabka(at, "--add", *who, *what, "--resource-pattern-type", kind).code == 0
    found = shared.until(lambda lines: len(lines) == 4 + 16)
    assert len([line for line in found if "patternType=PREFIXED" in line]) == 2
    for number, at in enumerate(reversed(brokers)):
        removed = shared.kafkas(at, "--remove", "--force", "--topic", f"t{number}", "--resource-pattern-type", "any")
        assert (removed.code, removed.err) == (0, "")
        shared.until(lambda lines, left=1 - number: len(lines) == 10 * left)


def test_our_tool_prints_what_kafkas_tool_prints(shared: Shared) -> None:
    """Both tools run against the Apache broker. The order of the entries is undefined in Kafka."""
    script = """
        --add --allow-principal User:a --operation read --topic x
        --add --allow-principal User:a --allow-principal User:b --allow-host 1.1.1.1 --operation All --group g
        --add --allow-principal User:p --producer --topic x --transactional-id t --idempotent
        --add --allow-principal User:c --consumer --topic x --group g --resource-pattern-type prefixed
        --add --allow-principal User:q --producer --consumer --topic x --group g
        --add --deny-principal User:d --deny-host 2.2.2.2 --cluster --operation ClusterAction
        --add --allow-principal User:e --operation CreateTokens --user-principal User:f
        --list
        --list --topic x
        --list --topic xy --resource-pattern-type match
        --list --principal User:a --principal User:c
        --list --group none
        --remove --force --allow-principal User:a --operation read --topic x
        --list --topic x --resource-pattern-type any
        --remove --force --topic x --resource-pattern-type any
        --remove --force --group g --resource-pattern-type match
        --remove --force --cluster
        --remove --force --transactional-id t
        --remove --force --user-principal User:f
        --list
    """
    for line in filter(None, map(str.strip, script.splitlines())):
        outputs = [tool(shared.kafka.address, *line.split()) for tool in (shared.kafkas, shared.zabka)]
        assert [each.code for each in outputs] == [0, 0]
        kafkas, ours = (sorted(filter(None, map(str.strip, each.out.splitlines()))) for each in outputs)
        assert ours == kafkas, line
