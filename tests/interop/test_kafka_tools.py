"""Kafka 3.9's command-line tools have the same output and exit code with our brokers as with Kafka's.

Our own tools print the same as Kafka's tools. Each test runs commands on an Apache Kafka cluster and on ours, and
compares the results. Parts that Kafka does not define are masked: ids, addresses, times, the first in-sync replica, and
the order of entries from hash maps.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.kafka_tools import TwoClusters, alone, called, in_any_order, masked, rows, two_clusters
from zabka.broker_sim.logs import producer_snapshots
from zabka.cli import (
    broker_api_versions,
    configs,
    consumer_groups,
    delete_records,
    elect,
    get_offsets,
    log_dirs,
    reassign,
    topics,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClusters]:
    with two_clusters(tmp_path_factory.mktemp("tools")) as clusters:
        yield clusters


def play(both: TwoClusters, tool: str, script: str) -> None:
    """Run a tool on both clusters once for each line of arguments. The outputs must be equal."""
    for line in filter(None, map(str.strip, script.splitlines())):
        both.same(tool, *shlex.split(line))


# ---- kafka-topics ---------------------------------------------------------------------------------------------


def test_topics_are_created_or_rejected(both: TwoClusters) -> None:
    play(
        both,
        "topics",
        f"""
        --create --topic t --replica-assignment 1:2:3,2:3:1
        --create --topic t --partitions 1
        --create --topic t --partitions 1 --if-not-exists
        --create --topic t.factor --partitions 2 --replication-factor 5
        --create --topic none --partitions 0 --replication-factor 1
        --create --topic t/x
        --create --topic ..
        --create --topic {"x" * 250}
        --create --topic t-config --replica-assignment 1:2,2:3 --config min.insync.replicas=2 --config retention.ms=7
        --create --topic bad --config retention.ms=abc
        --create --topic bad --config no.such=1
        --create --topic bad --config cleanup.policy=foo
        --create --topic bad --config min.insync.replicas=0
        --create --topic bad --config segment.bytes=99999999999
        --create --topic bad --config compression.type=foo
        --create --topic bad --config unclean.leader.election.enable=maybe
        --create --topic bad --config min.compaction.lag.ms=10 --config max.compaction.lag.ms=5
        --create --topic bad --config leader.replication.throttled.replicas=foo
        --create --topic bad --replica-assignment 1:2,2
        --create --topic bad --replica-assignment 1:1
        --create --topic bad --replica-assignment 1:2 --partitions 3
        --create --topic t_a.b --replica-assignment 1
        --create --topic t.a.b --replica-assignment 1
        --create
        --create --delete --topic x
        --create --topic x --bogus
        """,
    )


def test_topics_are_described_under_every_filter(both: TwoClusters) -> None:
    play(
        both,
        "topics",
        """
        --describe --topic t
        --describe --topic t-config
        --describe --topic t.*
        --describe --topic nothing
        --describe --topic nothing --if-exists
        --describe --topics-with-overrides
        --describe --under-replicated-partitions --topic t
        --describe --unavailable-partitions
        --describe --under-min-isr-partitions
        --describe --at-min-isr-partitions --topic t-config
        --describe --exclude-internal
        --describe --topic-id AAAAAAAAAAAAAAAAAAAAAA
        --list
        --list --exclude-internal
        """,
    )


def test_partitions_are_added_and_topics_are_deleted(both: TwoClusters) -> None:
    play(
        both,
        "topics",
        """
        --create --topic grows --replica-assignment 1:2
        --alter --topic grows --partitions 2 --replica-assignment 1:2,2:3
        --alter --topic grows --partitions 2
        --alter --topic grows --partitions 1
        --alter --topic grows --partitions 3 --replica-assignment 1:2,2:3,3:9
        --alter --topic grows --partitions 3 --replica-assignment 1:2,2:3,3
        --alter --topic nothing --partitions 2
        --alter --topic nothing --partitions 2 --if-exists
        --describe --topic grows
        --delete --topic grows
        --delete --topic nothing
        --delete --topic nothing --if-exists
        --list
        """,
    )


# ---- kafka-leader-election ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["preferred", "unclean"])
def test_leader_elections_run_or_are_reported_as_not_needed(both: TwoClusters, kind: str) -> None:
    both.run("topics", "--create", "--topic", "t", "--replica-assignment", "1:2:3,2:3:1", "--if-not-exists")
    row = {"topic": "t", "partition": 0}
    good = both.file("good.json", json.dumps({"partitions": [row, {**row, "partition": 1}]}))
    missing = both.file("missing.json", json.dumps({"partitions": [row, {"topic": "nothing", "partition": 1}]}))
    twice = both.file("twice.json", json.dumps({"partitions": [row, row]}))
    torn = both.file("torn.json", "{")
    play(
        both,
        "leader-election",
        f"""
        --election-type {kind} --topic t --partition 0
        --election-type {kind} --topic nothing --partition 0
        --election-type {kind} --all-topic-partitions
        --election-type {kind} --path-to-json-file {good}
        --election-type {kind} --path-to-json-file {missing}
        --election-type {kind} --path-to-json-file {twice}
        --election-type {kind} --path-to-json-file {torn}
        --election-type {kind} --topic t
        --election-type {kind}
        --all-topic-partitions
        """,
    )


# ---- kafka-configs --------------------------------------------------------------------------------------------


def test_topic_configurations_are_set_shown_and_removed(both: TwoClusters) -> None:
    both.run("topics", "--create", "--topic", "c", "--replica-assignment", "1:2", "--config", "min.insync.replicas=1")
    topic = "--entity-type topics --entity-name c"
    play(
        both,
        "configs",
        f"""
        --describe {topic}
        --describe --topic c --all
        --describe --entity-type topics --entity-name nothing
        --alter {topic} --add-config unclean.leader.election.enable=true,retention.bytes=100,retention.ms=5
        --describe {topic}
        --alter {topic} --add-config cleanup.policy=[compact,delete]
        --describe {topic}
        --alter {topic} --delete-config cleanup.policy,retention.bytes
        --alter {topic} --delete-config no.such
        --alter {topic} --add-config no.such=1
        --alter {topic} --add-config retention.ms=x
        --alter {topic} --add-config cleanup.policy=x
        --alter {topic} --add-config leader.replication.throttled.replicas=foo
        --alter --entity-type topics --entity-name nothing --add-config retention.ms=1
        --alter {topic}
        --alter {topic} --add-config a
        --describe {topic}
        """,
    )


def test_broker_configs_are_set_for_one_broker_or_as_default(both: TwoClusters) -> None:
    one, every = "--entity-type brokers --entity-name 1", "--entity-type brokers --entity-default"
    play(
        both,
        "configs",
        f"""
        --describe {one}
        --describe {every}
        --describe --entity-type brokers
        --alter {one} --add-config log.cleaner.threads=2
        --alter {one} --add-config leader.replication.throttled.rate=100,follower.replication.throttled.rate=100
        --describe {one}
        --alter {every} --add-config unclean.leader.election.enable=true,min.insync.replicas=1
        --describe {every}
        --describe --entity-type brokers --entity-name 2
        --alter {every} --delete-config unclean.leader.election.enable,min.insync.replicas
        --alter {one} --delete-config leader.replication.throttled.rate,follower.replication.throttled.rate
        --alter {one} --add-config num.partitions=5
        --alter {one} --add-config num.io.threads=100
        --alter {one} --add-config log.cleaner.threads=x
        --alter {every} --add-config num.io.threads=x
        --alter {every} --add-config listeners=PLAINTEXT://:9092
        --describe --entity-type brokers --entity-name x
        --alter {one} --delete-config log.cleaner.threads
        --alter --entity-type broker-loggers --entity-name 1 --add-config no.such.logger=DEBUG
        --describe --entity-type client-metrics
        --alter --entity-type client-metrics --entity-name m1 --add-config interval.ms=1000
        --describe --entity-type foo
        --describe
        --alter --add-config a=b
        """,
    )


def test_every_broker_key_is_described(both: TwoClusters) -> None:
    kafka, ours = both.run("configs", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
    assert (kafka.code, ours.code) == (0, 0)
    lines = [{line.split("=")[0].strip(): line for line in output.out.splitlines()} for output in (kafka, ours)]
    # Omit keys of the brokers' configuration files, which have different values, and keys that only our brokers have.
    configured = {
        key
        for side in lines
        for key, line in side.items()
        if "STATIC_BROKER_CONFIG" in line or key.startswith("zabka.") or key == "advertised.listeners"
    }
    assert {k: v for k, v in lines[0].items() if k not in configured} == {
        k: v for k, v in lines[1].items() if k not in configured
    }
    assert lines[0].keys() == {key for key in lines[1] if not key.startswith("zabka.")}


def test_user_quotas_and_credentials_are_set_listed_and_removed(both: TwoClusters) -> None:
    commands = """
        --alter --entity-type users --entity-name u1 --add-config producer_byte_rate=1000
        --alter --entity-type users --entity-default --add-config consumer_byte_rate=1000
        --alter --entity-type clients --entity-name c1 --add-config producer_byte_rate=1000,request_percentage=50
        --alter --user u1 --client c1 --add-config producer_byte_rate=5
        --alter --user u1 --client-defaults --add-config producer_byte_rate=1
        --alter --entity-type ips --entity-name 127.0.0.1 --add-config connection_creation_rate=100
        --alter --entity-type clients --entity-name c1 --add-config no_such=100
        --alter --entity-type clients --entity-name c1 --add-config producer_byte_rate=x
        --alter --entity-type clients --entity-name c1 --add-config producer_byte_rate=1.5
        --describe --entity-type users
        --describe --entity-type clients
        --describe --entity-type clients --entity-name c1
        --describe --entity-type users --entity-name u1
        --describe --entity-type users --entity-name u1 --entity-type clients
        --describe --entity-type users --entity-type clients
        --describe --entity-type users --entity-default
        --describe --entity-type ips
        --alter --entity-type users --entity-name u1 --delete-config producer_byte_rate
        --alter --entity-type users --entity-name u1 --delete-config producer_byte_rate
        --describe --entity-type users
        --alter --entity-type users --entity-name u2 --add-config SCRAM-SHA-256=[iterations=8192,password=pw]
        --describe --entity-type users --entity-name u2
        --alter --entity-type users --entity-name u2 --add-config SCRAM-SHA-256=[iterations=1,password=pw]
        --alter --entity-type users --entity-name u2 --delete-config SCRAM-SHA-256
        --describe --entity-type users --entity-name u2
        --alter --entity-type users --entity-default --delete-config consumer_byte_rate
        --alter --entity-type clients --entity-name c1 --delete-config producer_byte_rate,request_percentage
        --alter --user u1 --client c1 --delete-config producer_byte_rate
        --alter --user u1 --client-defaults --delete-config producer_byte_rate
        --alter --entity-type ips --entity-name 127.0.0.1 --delete-config connection_creation_rate
        --describe --entity-type users
        --describe --entity-type clients
        --describe --entity-type ips
        """
    # No throttle may remain after this test, because it would slow down later tests.
    for line in filter(None, map(str.strip, commands.splitlines())):
        both.same("configs", *shlex.split(line), mask=in_any_order)


# ---- kafka-reassign-partitions --------------------------------------------------------------------------------


def test_reassignment_is_proposed_run_throttled_and_verified(both: TwoClusters) -> None:
    both.run("topics", "--create", "--topic", "r", "--replica-assignment", "1:2,2:3")
    both.run("console-producer", "--topic", "r", stdin="line\n" * 100)
    moving = both.file("topics.json", json.dumps({"topics": [{"topic": "r"}], "version": 1}))
    nothing = both.file("nothing.json", json.dumps({"topics": [{"topic": "nothing"}], "version": 1}))
    plan = both.file("plan.json", _plan(("r", 0, [3, 1]), ("r", 1, [1, 2, 3])))

    def without_replicas(text: str) -> str:
        # Remove the replicas from the output, because the tool places them at random.
        return re.sub(r'"(replicas|log_dirs)":\[[^]]*\]', "", text)

    both.same(
        "reassign-partitions", "--topics-to-move-json-file", moving, "--broker-list", "1,2,3", "--generate",
        mask=without_replicas,
    )  # fmt: skip
    play(
        both,
        "reassign-partitions",
        f"""
        --list
        --topics-to-move-json-file {moving} --broker-list 1 --generate
        --topics-to-move-json-file {moving} --broker-list 1,1 --generate
        --topics-to-move-json-file {nothing} --broker-list 1,2 --generate
        --reassignment-json-file {plan} --verify
        --reassignment-json-file {plan} --execute --throttle 100000000
        """,
    )
    both.until(lambda output: "No partition" in output, "reassign-partitions", "--list")
    play(both, "configs", "--describe --entity-type brokers --entity-name 1\n--describe --topic r")
    play(both, "reassign-partitions", f"--list\n--reassignment-json-file {plan} --verify")
    play(both, "configs", "--describe --entity-type brokers --entity-name 1\n--describe --topic r")
    play(both, "topics", "--describe --topic r")


def _plan(*rows: tuple[str, int, list[int]] | tuple[str, int, list[int], list[str]]) -> str:
    names = ("topic", "partition", "replicas", "log_dirs")
    return json.dumps({"version": 1, "partitions": [dict(zip(names, row, strict=False)) for row in rows]})


def test_impossible_reassignments_and_cancellations_are_rejected(both: TwoClusters) -> None:
    both.run("topics", "--create", "--topic", "r", "--replica-assignment", "1:2,2:3", "--if-not-exists")
    plans = {
        "missing-topic": _plan(("nothing", 0, [3, 1])),
        "missing-partition": _plan(("r", 9, [3, 1])),
        "missing-broker": _plan(("r", 0, [3, 9])),
        "twice": _plan(("r", 0, [3, 3])),
        "empty": _plan(("r", 0, [])),
        "no-partitions": _plan(),
        "same-partition": _plan(("r", 0, [1]), ("r", 0, [2])),
        "torn": "{",
        "directory": _plan(("r", 0, [1, 2])).replace("[1, 2]", '[1, 2], "log_dirs": ["any", "/nowhere"]'),
    }
    for name, plan in plans.items():
        file = both.file(f"{name}.json", plan)
        both.same("reassign-partitions", "--reassignment-json-file", file, "--execute")
    # The tool had started the reassignment before it noticed the missing log directory, so wait until it ends.
    both.until(lambda output: "No partition" in output, "reassign-partitions", "--list")
    present = both.file("present.json", _plan(("r", 0, [1, 2])))
    play(
        both,
        "reassign-partitions",
        f"""
        --reassignment-json-file {present} --cancel
        --reassignment-json-file {present}
        --execute
        --verify
        """,
    )


SLOW = 1000
"""Throttle in bytes per second, so low that a move takes long."""


def _begin_to_move(both: TwoClusters, topic: str, *targets: list[int]) -> str:
    """Start throttled moves of a topic's partitions 0 and 1 to these brokers, in both clusters. Return the plan file.

    Before the move, the partitions are on brokers 1 and 2.
    """
    both.run("topics", "--create", "--topic", topic, "--replica-assignment", "1:2,2:1")
    both.fill(topic, partitions=2, size=2_000_000)
    plan = both.file(f"{topic}.json", _plan(*((topic, number, target) for number, target in enumerate(targets))))
    play(both, "reassign-partitions", f"--reassignment-json-file {plan} --execute --throttle {SLOW}")
    # The tool prints the metadata of an arbitrary broker, so wait until all brokers have the new replicas.
    replicas = [",".join(map(str, dict.fromkeys((*target, 1, 2)))) for target in targets]
    both.until(
        lambda output: all(f"Replicas: {each}\t" in output for each in replicas),
        "topics",
        "--describe",
        "--topic",
        topic,
    )
    return plan


def test_running_reassignment_is_cancelled(both: TwoClusters) -> None:
    plan = _begin_to_move(both, "slow", [3, 1], [3, 2])
    one = both.file("one.json", _plan(("slow", 0, [3, 1])))
    play(
        both,
        "reassign-partitions",
        f"""
        --list
        --reassignment-json-file {plan} --verify
        --reassignment-json-file {plan} --execute
        --reassignment-json-file {plan} --execute --additional --throttle {SLOW + 1}
        --reassignment-json-file {one} --cancel --preserve-throttles
        --list
        """,
    )
    throttles = "--describe --entity-type brokers --entity-name 1\n--describe --topic slow"
    play(both, "configs", throttles)
    play(both, "topics", "--describe --topic slow")
    play(
        both,
        "reassign-partitions",
        f"""
        --reassignment-json-file {plan} --cancel
        --list
        --reassignment-json-file {plan} --cancel
        --reassignment-json-file {plan} --verify
        """,
    )
    play(both, "configs", throttles)
    both.until(
        lambda output: output.count("Isr: ") == 2 and not re.search(r"Isr: \S*3", output), "topics", *DESCRIBE_SLOW
    )
    play(both, "topics", " ".join(DESCRIBE_SLOW))


DESCRIBE_SLOW = ("--describe", "--topic", "slow")


def test_our_reassign_tool_cancels_moves_like_kafkas_tool(both: TwoClusters) -> None:
    plan = _begin_to_move(both, "own-slow", [3, 1], [3, 2])
    differences = []
    for arguments in (
        "--list",
        f"--reassignment-json-file {plan} --verify",
        f"--reassignment-json-file {plan} --execute",
        f"--reassignment-json-file {plan} --cancel",
        "--list",
        f"--reassignment-json-file {plan} --cancel",
        f"--reassignment-json-file {plan} --verify",
    ):
        kafka = both.tools.run("reassign-partitions", "--bootstrap-server", both.kafka, *arguments.split())
        ours = called(reassign.main, "--bootstrap-server", both.ours.bootstrap, *arguments.split())
        expected, got = ((output.code, _plain(output.out)) for output in (kafka, ours))
        if expected != got:
            differences.append(f"{arguments}\nkafka {expected}\nours  {got} {ours.err}")
    assert not differences, "\n\n".join(differences)


def test_our_tool_cancels_a_move_that_only_adds_replicas(both: TwoClusters) -> None:
    """Our tool also cancels a move that only adds replicas; ReassignPartitionsCommand.cancelAssignment does not."""
    plan = _begin_to_move(both, "adds", [1, 2, 3])
    cancel = ("--reassignment-json-file", plan, "--cancel", "--preserve-throttles")
    passed_over = both.same("reassign-partitions", *cancel)
    assert "None of the specified partition reassignments are active." in passed_over
    both.same("reassign-partitions", "--list")
    for bootstrap in (both.kafka, both.ours.bootstrap):
        output = called(reassign.main, "--bootstrap-server", bootstrap, *cancel[:-1])
        assert "Successfully cancelled partition reassignment for: adds-0" in output.out
    both.until(lambda output: "No partition" in output, "reassign-partitions", "--list")


# ---- records and offsets --------------------------------------------------------------------------------------


def test_produced_records_are_consumed_and_offsets_are_listed(both: TwoClusters) -> None:
    both.run("topics", "--create", "--topic", "o", "--replica-assignment", "1:2,2:3")
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    lines = "".join(f"k{n}:v{n}\n" for n in range(20))
    both.same("console-producer", "--topic", "o", *keyed, stdin=lines)
    everything = both.same(
        "console-consumer", "--topic", "o", "--from-beginning", "--timeout-ms", "5000", mask=in_any_order
    )
    assert all(f"v{n}" in everything.split() for n in range(20))
    both.same(
        "console-consumer", "--topic", "o", "--partition", "0", "--offset", "1", "--max-messages", "2",
        "--timeout-ms", "5000", "--property", "print.offset=true", "--property", "print.key=true",
    )  # fmt: skip
    deletion = both.file("delete.json", json.dumps({"partitions": [{"topic": "o", "partition": 0, "offset": 2}]}))
    both.same("delete-records", "--offset-json-file", deletion)
    play(
        both,
        "get-offsets",
        """
        --topic o
        --topic o --time earliest
        --topic o --time -2
        --topic o --time 12345
        --topic o --time earliest-local
        --topic o --time latest-tiered
        --topic-partitions o:0,t.*:1-2
        --topic nothing
        --topic o --partitions 1
        --topic o --time never
        """,
    )


# ---- kafka-consumer-groups ------------------------------------------------------------------------------------


def test_groups_are_listed_described_reset_and_deleted(both: TwoClusters) -> None:
    both.run("topics", "--create", "--topic", "g", "--replica-assignment", "1:2,2:3")
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    both.run("console-producer", "--topic", "g", *keyed, stdin="".join(f"k{n}:v{n}\n" for n in range(20)))
    both.same("consumer-groups", "--describe", "--group", "nothing")
    consuming = ("--topic", "g", "--group", "readers", "--from-beginning", "--timeout-ms", "8000")
    both.same("console-consumer", *consuming, mask=in_any_order)
    script = """
        --list
        --list --state
        --list --state Empty
        --list --state Stable
        --list --type
        --list --type consumer
        --describe --group readers
        --describe --group readers --members
        --describe --group readers --members --verbose
        --describe --group readers --state
        --describe --group readers --offsets --verbose
        --describe --all-groups
        --describe --group nothing --state
    """
    ways = (
        "--to-earliest", "--to-latest", "--to-offset 3", "--to-offset 99", "--shift-by 2", "--shift-by -1",
        "--to-current", "--to-datetime 2020-01-01T00:00:00.000", "--by-duration PT1H",
    )  # fmt: skip
    script += "".join(
        f"--reset-offsets --group readers --topic g {way} {run}\n" for way in ways for run in ("--dry-run", "--execute")
    )
    script += """
        --describe --group readers
        --reset-offsets --group readers --topic g:0 --to-offset 3 --export
        --reset-offsets --group fresh --topic g --to-earliest --execute
        --describe --group fresh
        --reset-offsets --group readers --topic nothing --to-earliest --execute
        --reset-offsets --group readers --topic g
        --reset-offsets --group readers --to-earliest
        --delete-offsets --group fresh --topic g:0
        --delete-offsets --group nothing --topic g:0
        --describe --group fresh
        --delete --group fresh
        --delete --group nothing
        --delete --group readers
        --list
        --delete
    """
    for line in filter(None, map(str.strip, script.splitlines())):
        both.same("consumer-groups", *shlex.split(line), mask=in_any_order)


# ---- other tools ----------------------------------------------------------------------------------------------


def test_acl_token_and_transaction_tools_get_equal_responses(both: TwoClusters) -> None:
    both.run("topics", "--create", "--topic", "t", "--replica-assignment", "1:2:3,2:3:1", "--if-not-exists")
    both.same("acls", "--list")
    both.same("acls", "--add", "--allow-principal", "User:a", "--operation", "read", "--topic", "t")
    both.same("cluster", "cluster-id")
    both.same("cluster", "unregister", "--id", "1")
    both.same("features", "describe")
    both.same("features", "upgrade", "--metadata", "3.9")
    both.same("transactions", "list")
    both.same("transactions", "describe-producers", "--topic", "t", "--partition", "0")
    both.same("transactions", "find-hanging", "--broker-id", "1")
    for action in (["--create", "--max-life-time-period", "-1"], ["--describe"]):
        both.same("delegation-tokens", *action, "--command-config", "/dev/null")


def test_log_dirs_tool_describes_replicas_like_kafkas_tool(both: TwoClusters) -> None:
    both.run("topics", "--create", "--topic", "d", "--replica-assignment", "1:2,2:3")
    both.same("log-dirs", "--describe", "--broker-list", "1,2", "--topic-list", "d", mask=_in_order)
    both.same("log-dirs", "--describe", "--broker-list", "1,9")


def test_replicas_move_to_the_log_directories_in_a_plan(both: TwoClusters) -> None:
    both.run("topics", "--create", "--topic", "m", "--replica-assignment", "1:2,2:1")
    both.run("console-producer", "--topic", "m", stdin="line\n" * 2_000)
    kafka, ours = (_moved(both, bootstrap, homes) for bootstrap, homes in both.homes())
    assert kafka == ours


def _moved(both: TwoClusters, bootstrap: str, homes: dict[int, Path]) -> list[str]:
    """Return what the tool prints while it moves replicas between log directories.

    m-0 is moved to the other log directories of its brokers, and m-1 to a log directory of another broker.
    """
    targets = {1: "more", 2: "more", 3: "more"}
    for number in (1, 2):
        if _lying(homes[number], "m-0") == ["more"]:
            targets[number] = "logs"
    paths = {number: str(homes[number] / target) for number, target in targets.items()}
    plans = {
        "nowhere": ("m", 0, [1, 2], ["any", "/nowhere"]),
        "moved": ("m", 0, [1, 2], [paths[1], paths[2]]),
        "new": ("m", 1, [2, 3], ["any", paths[3]]),
    }
    files = {name: both.file(f"{name}-dirs.json", _plan(plan)) for name, plan in plans.items()}
    words = []
    for arguments in (
        f"--reassignment-json-file {files['nowhere']} --execute",
        f"--reassignment-json-file {files['moved']} --execute --replica-alter-log-dirs-throttle 1000000",
        f"--reassignment-json-file {files['moved']} --verify",
        f"--reassignment-json-file {files['new']} --execute",
        f"--reassignment-json-file {files['new']} --verify",
    ):

        def output(arguments: str = arguments) -> str:
            tool = both.tools.run("reassign-partitions", "--bootstrap-server", bootstrap, *arguments.split())
            text = f"{tool.out}\n{tool.err}\n{tool.code}"
            for home in homes.values():
                text = re.sub(rf"{home}/(logs|more)", "DIRECTORY", text)
            return masked(text)

        if arguments.endswith("--verify"):
            both.ours.until(lambda output=output: "still" not in output())  # type: ignore[misc]
        words.append(output())
    assert [_lying(homes[number], "m-0") for number in (1, 2)] == [[targets[1]], [targets[2]]]
    assert _lying(homes[3], "m-1") == ["more"]
    return words


def _lying(home: Path, partition: str) -> list[str]:
    """Return the names of the broker's log directories that contain a replica of the partition."""
    return sorted(path.parent.name for path in home.glob(f"*/{partition}"))


def _in_order(text: str) -> str:
    """Return the output with sorted directories and replicas, which come from hash maps in arbitrary order."""

    def ordered(found: re.Match[str]) -> str:
        document = json.loads(found[0])
        for broker in document["brokers"]:
            broker["logDirs"] = sorted((len(each.pop("partitions")), str(each)) for each in broker["logDirs"])
        return json.dumps(document)

    return re.sub(r'(?m)^\{"brokers".*$', ordered, text)


def test_version_ranges_of_all_requests_equal_those_of_kafka(both: TwoClusters) -> None:
    kafka, ours = (_version_ranges(output.out) for output in both.run("broker-api-versions"))
    assert len(kafka) > 60
    assert kafka == ours


def _version_ranges(text: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+\(\d+\)): ([^\[]+ \[usable: \d+\])", text))


# ------ the tools that put load on a cluster, each in its own process --------------------------------------------


def test_kafka_verifiable_and_perf_clients_work_with_our_brokers(both: TwoClusters) -> None:
    both.tools.run("topics", "--bootstrap-server", both.ours.bootstrap, "--create", "--topic", "v", "--partitions", "2")
    brokers = ("--bootstrap-server", both.ours.bootstrap, "--topic", "v")
    tools = "org.apache.kafka.tools"
    produced = rows(alone(f"{tools}.VerifiableProducer", *brokers, "--max-messages", "50"))
    assert produced[-1]["sent"] == produced[-1]["acked"] == 50
    verified = ("--group-id", "v", "--max-messages", "50", "--reset-policy", "earliest")
    consumed = rows(alone(f"{tools}.VerifiableConsumer", *brokers, *verified))
    assert sum(int(str(row["count"])) for row in consumed if row["name"] == "records_consumed") == 50
    rate = ("--num-records", "500", "--record-size", "100", "--throughput", "-1")
    acks = ("--producer-props", f"bootstrap.servers={both.ours.bootstrap}", "acks=all")
    assert "500 records sent" in alone(f"{tools}.ProducerPerformance", "--topic", "v", *rate, *acks)
    read = alone(f"{tools}.ConsumerPerformance", *brokers, "--messages", "500", "--timeout", "20000")
    assert float(read.strip().splitlines()[-1].split(", ")[4]) >= 500


def test_kafka_tool_reads_our_segments(both: TwoClusters) -> None:
    create = ("--create", "--topic", "s", "--replica-assignment", "1")
    both.tools.run("topics", "--bootstrap-server", both.ours.bootstrap, *create)
    both.tools.run("console-producer", "--bootstrap-server", both.ours.bootstrap, "--topic", "s", stdin="one\ntwo\n")
    (segment,) = both.ours.brokers[1].home.glob("*/s-0/*.log")
    dumped = alone("kafka.tools.DumpLogSegments", "--files", str(segment), "--print-data-log")
    assert re.findall(r"payload: (\w+)", dumped) == ["one", "two"]
    assert "isvalid: true" in dumped


def test_kafka_tool_reads_our_producer_snapshots(tmp_path: Path) -> None:
    entry = producer_snapshots.ProducerEntry(7, 1, 41, 100, 2, 1_234)
    path = tmp_path / producer_snapshots.file_name(101)
    path.write_bytes(producer_snapshots.encode([entry]))
    dumped = alone("kafka.tools.DumpLogSegments", "--files", str(path))
    assert re.search(r"producerId: 7 producerEpoch: 1 .*lastSequence: 41 lastOffset: 100 offsetDelta: 2 ", dumped)


# ---- our own tools --------------------------------------------------------------------------------------------

OWN_TOOLS: dict[str, Callable[[list[str]], int]] = {
    "broker-api-versions": broker_api_versions.main,
    "configs": configs.main,
    "consumer-groups": consumer_groups.main,
    "delete-records": delete_records.main,
    "get-offsets": get_offsets.main,
    "leader-election": elect.main,
    "log-dirs": log_dirs.main,
    "reassign-partitions": reassign.main,
    "topics": topics.main,
}


def test_our_tools_print_the_same_as_kafkas_tools(both: TwoClusters) -> None:
    both.run("topics", "--create", "--topic", "own", "--replica-assignment", "1:2,2:3", "--config", "retention.ms=9")
    both.run("console-producer", "--topic", "own", stdin="line\n" * 10)
    both.run("console-consumer", "--topic", "own", "--group", "owners", "--from-beginning", "--timeout-ms", "8000")
    both.run("leader-election", "--election-type", "preferred", "--all-topic-partitions")
    move = both.file("own.json", _plan(("own", 0, [1, 2]), ("own", 1, [3, 1])))
    row = {"topic": "own", "partition": 0, "replicas": [1, 2], "log_dirs": ["/elsewhere", "any"]}
    dirs = both.file("own-dirs.json", json.dumps({"version": 1, "partitions": [row]}))
    elect = both.file("elect.json", json.dumps({"partitions": [{"topic": "own", "partition": 0}]}))
    topics = both.file("own-topics.json", json.dumps({"topics": [{"topic": "own"}], "version": 1}))
    script = f"""
        topics --list
        topics --describe --topic own
        topics --describe --topics-with-overrides
        topics --describe --at-min-isr-partitions
        topics --describe --unavailable-partitions
        topics --describe --topic nothing
        topics --create --topic own --partitions 1
        topics --create --topic own --partitions 1 --if-not-exists
        topics --create --topic wrong --partitions 1 --replication-factor 9
        topics --alter --topic own --partitions 1
        topics --alter --topic nothing --partitions 1
        topics --delete --topic nothing
        leader-election --election-type preferred --topic own --partition 0
        leader-election --election-type preferred --all-topic-partitions
        leader-election --election-type unclean --path-to-json-file {elect}
        leader-election --election-type preferred --topic nothing --partition 0
        configs --describe --entity-type topics --entity-name own
        configs --describe --topic own --all
        configs --describe --entity-type brokers --entity-name 1
        configs --describe --entity-type brokers --entity-name 1 --all
        configs --describe --entity-type brokers --entity-default
        configs --describe --entity-type brokers
        configs --describe --entity-type topics
        configs --alter --topic own --add-config cleanup.policy=[compact,delete],retention.bytes=5
        configs --alter --topic own --delete-config flush.ms,retention.ms
        get-offsets --topic own
        get-offsets --topic own --time earliest
        get-offsets --topic-partitions own:1-
        get-offsets --topic nothing
        get-offsets --topic own --time never
        consumer-groups --list
        consumer-groups --list --state --type
        consumer-groups --describe --group owners
        consumer-groups --describe --group owners --state
        consumer-groups --describe --group owners --members --verbose
        consumer-groups --describe --group nothing
        consumer-groups --reset-offsets --group owners --topic own --shift-by -2 --dry-run
        consumer-groups --reset-offsets --group owners --topic own:0 --to-earliest --export
        consumer-groups --delete --group nothing
        reassign-partitions --list
        reassign-partitions --reassignment-json-file {move} --verify
        reassign-partitions --topics-to-move-json-file {topics} --broker-list 1 --generate
        reassign-partitions --reassignment-json-file {move} --cancel
        reassign-partitions --reassignment-json-file {dirs} --verify
        reassign-partitions --reassignment-json-file {dirs} --cancel --preserve-throttles
        reassign-partitions --reassignment-json-file {dirs} --execute --preserve-throttles
        log-dirs --describe --topic-list nothing
        log-dirs --describe --broker-list 9
    """
    differences = []
    for line in filter(None, map(str.strip, script.splitlines())):
        tool, *arguments = shlex.split(line)
        brokers = ["--bootstrap-server", both.ours.bootstrap]
        kafka = both.tools.run(tool, *brokers, *arguments)
        ours = called(OWN_TOOLS[tool], *brokers, *arguments)
        expected, got = ((output.code, _plain(output.out)) for output in (kafka, ours))
        if expected != got:
            differences.append(f"{line}\nkafka {expected}\nours  {got} {ours.err}")
    assert not differences, "\n\n".join(differences)


def _plain(text: str) -> str:
    """Return a tool's output without the parts that our tools do not print.

    These parts are stack traces, the Optional around a name, and the line break in a plan for resetting offsets.
    """
    text = re.sub(r"(?m)^(org\.apache\.|Caused by|\tSuppressed).*\n?", "", text.replace("Optional[nothing]", "nothing"))
    if "NEW-OFFSET" in text:
        text = re.sub(r"\s+", " ", text)
    return in_any_order(masked(text)).strip()


# ---- tools during an outage -----------------------------------------------------------------------------------


def test_offline_partition_gets_a_leader_by_unclean_election(both: TwoClusters) -> None:
    both.run("topics", "--create", "--topic", "u", "--replica-assignment", "1:2")
    describe = ("topics", "--describe", "--topic", "u")
    both.until(lambda output: re.search(r"Isr: 1,2\b", output) is not None, *describe)

    def kill(number: int) -> None:
        both.servers[number - 1].kill()
        both.ours.brokers[number].kill()

    kill(2)
    both.until(lambda output: re.search(r"Isr: 1\b(?!,)", output) is not None, *describe)
    # Wait until broker 2 is no longer registered. Otherwise Kafka's broker would exit when it is started again.
    both.until(lambda output: "(id: 2 " not in output, "broker-api-versions")
    kill(1)
    both.servers[1].start()
    both.ours.brokers[2].start()
    both.until(lambda output: "Leader: none" in output, *describe)
    both.until(lambda output: "(id: 2 " in output, "broker-api-versions")
    play(both, "topics", "--describe --topic u --unavailable-partitions\n--describe --topic u")
    play(both, "leader-election", "--election-type preferred --topic u --partition 0")
    play(both, "configs", "--alter --topic u --add-config unclean.leader.election.enable=true")
    both.until(lambda output: "Leader: 2" in output, *describe)
    for expected in ("--describe --topic u --under-replicated-partitions", "--describe --topic u"):
        assert "Leader: 2" in both.settles("topics", *expected.split())
