"""The plan of a cluster: counts, ports, settings, and the files that a second `up` reads."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from zabka.compose.config_keys import BadSetting, Overrides, split_settings
from zabka.compose.plan import BadPlan, Requested, plan
from zabka.compose.ports import SOCKET_PATH_BYTES_MAX, PortTaken, control_socket, is_free, pick_block
from zabka.compose.topology import BadTopology, Topology, load, save, write_node
from zabka.compose.up import exposed

PICK = Requested(api_port=0, zk_port=0, kafka_port=0)


def test_peers_and_brokers_are_numbered_from_one() -> None:
    topology = plan(PICK, None)

    assert [p.name for p in topology.peers] == ["peer-1", "peer-2", "peer-3"]
    assert [b.name for b in topology.brokers] == ["broker-1", "broker-2", "broker-3"]
    assert topology.hosts[0].nodes == [p.name for p in topology.peers] + [b.name for b in topology.brokers]


def test_client_ports_are_numbered_from_the_first_port() -> None:
    topology = plan(PICK, None)

    first = topology.peers[0].client_port
    assert [p.client_port for p in topology.peers] == [first, first + 1, first + 2]


def test_every_port_is_assigned_only_once() -> None:
    topology = plan(Requested(api_port=0, zk_port=0, kafka_port=0, peers=5, brokers=5, observers=2), None)

    ports = [topology.api_port, topology.hosts[0].agent_port, *(b.port for b in topology.brokers)]
    for peer in topology.peers:
        ports += [peer.client_port, peer.quorum_port, peer.election_port]
    assert len(ports) == len(set(ports))


def test_second_up_command_uses_the_saved_topology(tmp_path: Path) -> None:
    first = plan(PICK, None)
    save(first, tmp_path)

    assert plan(Requested(), load(tmp_path)) == first
    assert plan(PICK, load(tmp_path)) == first


def test_change_of_the_voter_count_is_rejected() -> None:
    with pytest.raises(BadPlan, match="holds an ensemble of 3 peers, not 5"):
        plan(Requested(peers=5), plan(PICK, None))


def test_brokers_and_observers_can_be_added_later() -> None:
    topology = plan(Requested(brokers=4, observers=1), plan(PICK, None))

    assert [b.id for b in topology.brokers] == [1, 2, 3, 4]
    assert [(p.id, p.observer) for p in topology.peers][-1] == (4, True)


@pytest.mark.parametrize("host", ["999.1.1.1", "192.0.2.77", "no-such-host.invalid", "a" * 300])
def test_address_not_on_this_machine_is_rejected(host: str) -> None:
    with pytest.raises(BadPlan, match=r"--host .*: this machine has no such address"):
        plan(Requested(host=host, api_port=0, zk_port=0, kafka_port=0), None)


@pytest.mark.parametrize(
    ("host", "written"), [("127.0.0.2", "127.0.0.2"), ("::1", "[::1]"), ("127.0.0.1", "127.0.0.1")]
)
def test_nodes_are_contacted_at_their_listening_address(host: str, written: str) -> None:
    """The API contacts each node at the address on which it listens.

    Before the fix, peers that listened on another loopback address were contacted at 127.0.0.1.
    """
    topology = plan(Requested(peers=1, brokers=1, host=host, api_port=0, zk_port=0, kafka_port=0), None)

    assert topology.connect == f"{written}:{topology.peers[0].client_port}"
    assert topology.bootstrap == f"{written}:{topology.brokers[0].port}"
    assert topology.on_loopback()


def test_server_bound_to_ipv6_wildcard_is_reached_only_over_ipv6() -> None:
    """Nodes that listen on `::` are contacted over IPv6.

    Before the fix, `up --host ::` never became ready: peers were contacted at 127.0.0.1, and brokers advertised an IPv4
    address.
    """
    topology = plan(Requested(peers=1, brokers=1, host="::", api_port=0, zk_port=0, kafka_port=0), None)

    assert topology.connect == f"[::1]:{topology.peers[0].client_port}"
    assert ":" in topology.brokers[0].advertised
    assert not topology.on_loopback()


def test_files_with_settings_are_readable_only_by_their_user(tmp_path: Path) -> None:
    topology = plan(PICK, None)
    (tmp_path / "topology.json").write_text("{}")
    paths = [save(topology, tmp_path), *(write_node(topology, node, tmp_path) for node in topology.nodes())]

    assert {path.name for path in paths} == {"topology.json", "zoo.cfg", "server.properties"}
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}


def test_listening_outside_loopback_logs_a_warning() -> None:
    everywhere = plan(Requested(host="0.0.0.0", api_port=0, zk_port=0, kafka_port=0), None)
    alone = [msgspec.structs.replace(broker, advertised="127.0.0.1") for broker in everywhere.brokers]

    assert "0.0.0.0 without authentication" in exposed(everywhere)[0]
    assert "brokers advertise 127.0.0.1" in exposed(msgspec.structs.replace(everywhere, brokers=alone))[1]


def test_too_low_open_file_limit_is_an_error_before_any_start(tmp_path: Path) -> None:
    limited = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))\n"
    code = f"{limited}from zabka.cli.main import main\nmain()"
    command = [sys.executable, "-c", code, "up", "--data", str(tmp_path / "d")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 1
    assert "a process may open 20 files only; nodes need 256 at least (ulimit -n 256)" in done.stdout + done.stderr
    assert not (tmp_path / "d").exists()


def test_port_in_use_is_reported_with_its_address() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} on 127.0.0.1"):
            plan(Requested(api_port=port, zk_port=0, kafka_port=0), None)


def test_chosen_ports_are_below_the_ephemeral_range() -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    base = pick_block("127.0.0.1", 5)

    assert base + 5 <= low
    assert all(is_free("127.0.0.1", port) for port in range(base, base + 5))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (Requested(peers=0), "--peers takes 1 to 255"),
        (Requested(brokers=256), "--brokers takes 0 to 255"),
        (Requested(profile="fast"), "--profile is one of default, kafka"),
        (Requested(api_port=70_000), "is not a port"),
    ],
)
def test_contradictory_options_are_rejected(options: Requested, reason: str) -> None:
    with pytest.raises(BadPlan, match=reason):
        plan(options, None)


# ---- settings ----------------------------------------------------------------------------------------------------


def test_settings_are_split_between_kafka_and_zookeeper_by_key() -> None:
    found = split_settings(["tickTime=200", "replica.lag.time.max.ms=1000", "zookeeper.session.timeout.ms=4000"])

    assert found.zookeeper == {"tickTime": "200"}
    assert found.kafka == {"replica.lag.time.max.ms": "1000", "zookeeper.session.timeout.ms": "4000"}


def test_zabka_historical_setting_is_passed_only_to_brokers() -> None:
    found = split_settings(["zabka.historical=empty-isr,ghost-controller"])
    assert found == Overrides({}, {"zabka.historical": "empty-isr,ghost-controller"})


def test_journal_level_setting_applies_to_every_node() -> None:
    assert split_settings(["zabka.journal.level=full"]) == Overrides(
        {"zabka.journal.level": "full"}, {"zabka.journal.level": "full"}
    )


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("tickTime", "KEY=VALUE"),
        ("tikTime=100", "did you mean tickTime"),
        ("replica.lag.time.ms=1", "did you mean replica.lag.time.max.ms"),
        ("tickTime=soon", "whole number"),
        ("tickTime=0", "at least 1"),
        ("unclean.leader.election.enable=maybe", "true or false"),
        ("broker.id=7", "laid out by `zabka up` itself"),
        ("server.1=a:1:2", "laid out by `zabka up` itself"),
        ("dataDir=/x", "laid out by `zabka up` itself"),
        ("zabka.journal.level=loud", "one of normal, full"),
        ("zabka.historical=unfenced", "knows no 'unfenced'; there are unfenced-controller"),
        ("dataLogDir=/a\nserver.9=evil:1:2", "one line"),
    ],
)
def test_invalid_setting_is_rejected_with_the_reason(setting: str, reason: str) -> None:
    with pytest.raises(BadSetting, match=reason):
        split_settings([setting])


def test_plan_keeps_settings_until_they_are_reset(tmp_path: Path) -> None:
    first = plan(Requested(api_port=0, zk_port=0, kafka_port=0, overrides=split_settings(["tickTime=300"])), None)
    second = plan(Requested(), first)
    third = plan(Requested(overrides=split_settings(["tickTime="])), second)

    assert second.zookeeper == {"tickTime": "300"}
    assert third.zookeeper == {}


# ---- files ----------------------------------------------------------------------------------------------------


def _settings(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def _topology(**changes: object) -> Topology:
    return plan(Requested(api_port=0, zk_port=0, kafka_port=0, **changes), None)  # type: ignore[arg-type]


def test_peer_gets_its_zoo_cfg_and_myid(tmp_path: Path) -> None:
    topology = _topology(observers=1)

    found = _settings(write_node(topology, topology.peers[3], tmp_path))

    assert (tmp_path / "peer-4" / "data" / "myid").read_text() == "4\n"
    assert found["tickTime"] == "500"
    assert found["peerType"] == "observer"
    assert found["server.4"].endswith(":observer")
    assert found["4lw.commands.whitelist"] == "*"
    assert found["zabka.journal.dir"] == str(tmp_path / "peer-4" / "journal")


def test_broker_gets_its_server_properties(tmp_path: Path) -> None:
    topology = _topology(overrides=split_settings(["replica.lag.time.max.ms=900"]))

    found = _settings(write_node(topology, topology.brokers[1], tmp_path))

    assert found["broker.id"] == "2"
    assert found["zookeeper.connect"] == topology.connect
    assert found["zookeeper.session.timeout.ms"] == "6000"
    assert found["replica.lag.time.max.ms"] == "900"
    assert found["listeners"] == f"PLAINTEXT://127.0.0.1:{topology.brokers[1].port}"
    assert found["zabka.node.name"] == "broker-2"


def test_kafka_profile_uses_the_default_timeouts_of_kafka(tmp_path: Path) -> None:
    topology = _topology(profile="kafka")

    assert _settings(write_node(topology, topology.brokers[0], tmp_path))["replica.lag.time.max.ms"] == "30000"
    assert _settings(write_node(topology, topology.peers[0], tmp_path))["tickTime"] == "2000"


def test_four_letter_words_are_disabled_outside_loopback(tmp_path: Path) -> None:
    topology = _topology(host="0.0.0.0")

    assert "4lw.commands.whitelist" not in _settings(write_node(topology, topology.peers[0], tmp_path))


def test_too_long_socket_path_is_replaced_by_a_short_one(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 90) / "broker-1"

    assert len(str(control_socket(deep))) < SOCKET_PATH_BYTES_MAX
    assert control_socket(deep) != control_socket(deep.parent / "broker-2")
    assert control_socket(Path("/d/broker-1")) == Path("/d/broker-1/control.sock")


def test_damaged_topology_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "topology.json").write_text('{"peers": 3')

    with pytest.raises(BadTopology, match="is damaged"):
        load(tmp_path)
