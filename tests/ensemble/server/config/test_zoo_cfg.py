"""zoo.cfg has ZooKeeper's keys and defaults.

An unknown key causes a warning, and an invalid value a one-line error.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from zabka.ensemble.server.config.zoo_cfg import TICK_TIME_MAX_MS, ConfigError, load, parse
from zabka.ensemble.server.process.peer_process import ensemble_config
from zabka.ensemble.zab.server_line import ServerLine, parse_server_line

THREE = """
tickTime=500
initLimit=10
syncLimit=5
server.1=127.0.0.1:2888:3888
server.2=localhost:2889:3889:participant;2182
server.3=[::1]:2890:3890:observer;0.0.0.0:2183
"""


def config_text(data: Path, rest: str, my_id: str | None = "1") -> str:
    if my_id is not None:
        (data / "myid").write_text(my_id)
    return f"dataDir={data}\n{rest}"


def test_zoo_cfg_defaults_equal_those_of_zookeeper(tmp_path: Path) -> None:
    config = parse(config_text(tmp_path, "clientPort=2181", None))
    assert (config.my_id, config.voters, config.observers) == (1, (1,), ())
    assert (config.tick_time, config.min_session_timeout, config.max_session_timeout) == (3000, 6000, 60_000)
    assert (config.limits.per_host, config.storage.snap_count, config.limits.frame_bytes) == (60, 100_000, 0xFFFFF)
    assert config.whitelist == ("srvr",)
    assert (config.data_log_dir, config.journal_dir) == (tmp_path, tmp_path / "journal")
    assert config.warnings == ()


def test_session_timeout_bound_of_minus_1_depends_on_tick_time(tmp_path: Path) -> None:
    longest = f"clientPort=2181\ntickTime={TICK_TIME_MAX_MS}\nminSessionTimeout=-1\nmaxSessionTimeout=-1"
    config = parse(config_text(tmp_path, longest, None))
    assert config.min_session_timeout == 2 * TICK_TIME_MAX_MS
    assert 2**31 - 20 <= config.max_session_timeout < 2**31


def test_servers_are_read_with_roles_and_client_ports(tmp_path: Path) -> None:
    config = parse(config_text(tmp_path, THREE + "4lw.commands.whitelist=ruok, stat\n", "2"))
    assert (config.my_id, config.voters, config.observers) == (2, (1, 2), (3,))
    assert (config.client_port, config.client_address) == (2182, "")
    assert config.whitelist == ("ruok", "stat", "srvr")
    assert config.node == "peer-2"
    assert config.ensemble_text().splitlines() == [
        "server.1=127.0.0.1:2888:3888:participant",
        "server.2=localhost:2889:3889:participant;0.0.0.0:2182",
        "server.3=[::1]:2890:3890:observer;0.0.0.0:2183",
        "version=0",
    ]


def test_zoo_cfg_keys_of_zabka_are_read(tmp_path: Path) -> None:
    extra = "clientPort=1\nzabka.journal.dir=/j\nzabka.journal.level=full\nzabka.control.socket=/s\n"
    config = parse(config_text(tmp_path, extra, None))
    assert (config.journal_dir, config.journal_full, config.control_socket) == (Path("/j"), True, "/s")


def test_read_only_mode_and_local_sessions_are_off_by_default(tmp_path: Path) -> None:
    config = parse(config_text(tmp_path, "clientPort=2181", None))
    assert (config.read_only_mode, config.local_sessions, config.local_sessions_upgrading) == (False, False, False)
    keys = ("readonlymode.enabled", "localSessionsEnabled", "localSessionsUpgradingEnabled")
    config = parse(config_text(tmp_path, "\n".join(["clientPort=2181", *(f"{key}=true" for key in keys)]), None))
    assert (config.read_only_mode, config.local_sessions, config.local_sessions_upgrading) == (True, True, True)
    assert config.whitelist == ("srvr", "isro"), "clients of a read-only server use it to look for a writable one"
    assert config.warnings == ()


def test_unknown_key_is_a_warning(tmp_path: Path) -> None:
    config = parse(config_text(tmp_path, "clientPort=1\ntickTme=5\nadmin.enableServer=false", None))
    assert config.warnings == ("unknown key tickTme is ignored; did you mean tickTime?",)
    assert parse(config_text(tmp_path, "clientPort=1\nflux=9", None)).warnings == ("unknown key flux is ignored",)


def test_error_in_zoo_cfg_contains_the_file_name(tmp_path: Path) -> None:
    path = tmp_path / "zoo.cfg"
    path.write_text("dataDir=/d\nclientPort=x\n")
    with pytest.raises(ConfigError, match=rf"clientPort=x is not a number .*\(in {path}\)"):
        load(path)


def test_admin_server_and_metrics_default_to_off_and_loopback(tmp_path: Path) -> None:
    config = parse(config_text(tmp_path, "clientPort=1", None))
    assert (config.admin, config.metrics) == (None, None)
    prometheus = "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
    config = parse(config_text(tmp_path, f"clientPort=1\nadmin.enableServer=true\n{prometheus}", None))
    assert config.admin is not None and config.metrics is not None
    assert (config.admin.address, config.admin.port, config.admin.command_url) == ("127.0.0.1", 8080, "/commands")
    assert config.admin.snapshots_interval_ms is None, "the snapshot command is off by default"
    assert (config.metrics.address, config.metrics.port) == ("127.0.0.1", 7000)
    with pytest.raises(ConfigError, match=r"metricsProvider.className=org.example.Mine is not one of"):
        parse(config_text(tmp_path, "clientPort=1\nmetricsProvider.className=org.example.Mine", None))


@pytest.mark.parametrize(
    ("rest", "my_id", "message"),
    [
        ("", None, "clientPort is not set"),
        ("clientPort=x", None, "clientPort=x is not a number from 0 to 65535"),
        ("clientPort=70000", None, "clientPort=70000 is not"),
        ("clientPort=1\ntickTime=0", None, "tickTime=0 is not a number from 1"),
        ("clientPort=1\ntickTime=107374183", None, "tickTime=107374183 is not a number from 1 to 107374182"),
        ("clientPort=1\ntickTime=500\nminSessionTimeout=10001\nmaxSessionTimeout=-1", None, "is above maxSess"),
        ("clientPort=1\nquorumListenOnAllIPs=maybe", None, "maybe is not true or false"),
        ("clientPort=1\nminSessionTimeout=9\nmaxSessionTimeout=5", None, "is above maxSessionTimeout"),
        ("clientPort=1\nzabka.journal.level=loud", None, "loud is not normal or full"),
        ("clientPort=1\nserver.1=a:1:2", None, "myid is missing"),
        ("clientPort=1\nserver.1=a:1:2", "one", "'one' instead of a number from 0 to 255"),
        ("clientPort=1\nserver.1=a:1:2", "2", "says 2, but there is no server.2"),
        ("clientPort=1\nserver.1=a:1:2\nserver.01=b:1:2", "1", "two servers have the id 1"),
        ("clientPort=1\nserver.1=a:1:2\nserver.2=a:1:3", "1", "shares it with server.1"),
        ("clientPort=1\nserver.1=a:1:1", "1", "uses a:1 twice"),
        ("clientPort=1\nserver.1=a:1", "1", "expected host:quorumPort:electionPort"),
        ("clientPort=1\nserver.1=a:1:2:king", "1", "neither participant nor observer"),
        ("clientPort=1\nserver.1=a:1:99999", "1", "is no port"),
        ("clientPort=1\nserver.256=a:1:2", "1", "a server's id is a number from 0 to 255"),
        ("clientPort=1\nserver.1=a:1:2:observer", "1", "at least one participant"),
        ("clientPort=1\nserver.1=a:1:2;5", "1", "differs from the 5"),
        ("clientPort=1\nsyncLimit=5\nserver.1=a:1:2\nserver.2=b:1:2", "1", "initLimit is not set"),
    ],
)
def test_bad_value_is_reported_in_one_line(tmp_path: Path, rest: str, my_id: str | None, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(config_text(tmp_path, rest, my_id))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("my_id", ["0", "255"])
def test_server_id_must_fit_in_a_byte(tmp_path: Path, my_id: str) -> None:
    config = parse(config_text(tmp_path, f"clientPort=1\nserver.{my_id}=a:1:2", my_id))
    assert (config.my_id, list(config.servers)) == (int(my_id), [int(my_id)])


def test_missing_data_directory_or_file_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="dataDir is not set"):
        parse("clientPort=1")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "zoo.cfg")


def test_several_addresses_are_accepted_if_enabled(tmp_path: Path) -> None:
    line = "server.1=b:1:2:observer|a:3:4;5"
    parsed = parse_server_line(line.partition("=")[2])
    assert parsed.addresses == (("b", 1, 2), ("a", 3, 4))
    assert parsed.canonical() == "a:3:4|b:1:2:observer;0.0.0.0:5"
    several = "clientPort=1\nserver.1=a:1:2|b:1:2\n"
    with pytest.raises(ConfigError, match=r"multiAddress.enabled is not true"):
        parse(config_text(tmp_path, several))
    assert len(parse(config_text(tmp_path, several + "multiAddress.enabled=true")).servers[1].addresses) == 2


def test_role_in_the_server_line_overrides_peer_type(tmp_path: Path) -> None:
    text = "clientPort=1\npeerType=observer\nserver.1=a:1:2\n"
    assert parse(config_text(tmp_path, text)).warnings == (
        "peerType=observer is ignored: this server's own line says participant",
    )


def test_server_line_is_parsed_with_all_its_parts() -> None:
    assert parse_server_line("[fe80::1]:1:2:observer;[::]:3") == ServerLine("fe80::1", 1, 2, True, "::", 3)


def test_invalid_cnx_timeout_is_rejected_only_in_an_ensemble(tmp_path: Path) -> None:
    """A standalone server ignores an invalid cnxTimeout.

    Only QuorumCnxManager reads this key, and a standalone server has no QuorumCnxManager.
    """
    assert parse(config_text(tmp_path, "clientPort=1\ncnxTimeout=soon", None)).warnings == ()
    with pytest.raises(ConfigError, match=r"cnxTimeout=soon is not a number"):
        parse(config_text(tmp_path, THREE + "cnxTimeout=soon", "2"))


def test_admin_server_starts_unless_its_enable_key_is_false(tmp_path: Path) -> None:
    """The admin server starts unless admin.enableServer is exactly false (AdminServerFactory).

    The other admin keys are checked only if the admin server starts.
    """
    config = parse(config_text(tmp_path, "clientPort=1\nadmin.enableServer=no\nadmin.serverPort=x", None))
    assert config.admin is not None and config.admin.port == 8080
    assert config.warnings == (
        "admin.enableServer=no is not false: the admin server starts",
        "admin.serverPort=x is not a number that ZooKeeper reads: the default is used",
    )
    with pytest.raises(ConfigError, match=r"admin.serverPort=70000 is not a port"):
        parse(config_text(tmp_path, "clientPort=1\nadmin.enableServer=true\nadmin.serverPort=70000", None))
    off = parse(config_text(tmp_path, "clientPort=1\nadmin.enableServer=false\nadmin.serverPort=70000", None))
    assert (off.admin, off.warnings) == (None, ())


def test_leader_serves_key_decides_if_the_leader_accepts_clients(tmp_path: Path) -> None:
    """The leader accepts clients unless leaderServes is exactly no (Leader.lead). A standalone server ignores the
    key.
    """
    alone = parse(config_text(tmp_path, "clientPort=1\nleaderServes=no", None))
    assert (alone.leader_serves, ensemble_config(alone).leader_serves, alone.warnings) == (False, True, ())
    for text, serves in (("no", False), ("yes", True), ("NO", True)):
        config = parse(config_text(tmp_path, f"{THREE}leaderServes={text}", "2"))
        assert ensemble_config(config).leader_serves == serves
    assert config.warnings == ("leaderServes=NO is neither no nor yes: it counts as yes",)


def test_storage_keys_below_their_limits_are_raised_and_logged(tmp_path: Path) -> None:
    lines = "clientPort=1\nautopurge.purgeInterval=1\nautopurge.snapRetainCount=1\ncommitLogCount=0\nsnapCount=1\n"
    config = parse(config_text(tmp_path, lines, None))
    storage = config.storage
    assert (storage.retain_snapshots, storage.committed_log_length, storage.snap_count) == (3, 500, 2)
    assert config.warnings == (
        "autopurge.snapRetainCount=1 is below the limit: 3 is used",
        "snapCount=1 is below the limit: 2 is used",
        "commitLogCount=0 is below the limit: 500 is used",
    )
