"""The files with the ensemble's list of servers: zoo.cfg, its dynamic file, and the proposed file (`.next`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from zabka.ensemble.server.config.dynamic_config import DynamicConfigFiles
from zabka.ensemble.server.config.zoo_cfg import ConfigError, ZooConfig, load
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.zab.membership import Membership

STATIC = """# our ensemble
dataDir={data}
initLimit=10
syncLimit=5
clientPort=2181
clientPortAddress=127.0.0.1
reconfigEnabled=true
server.1=127.0.0.1:2888:3888
server.2=127.0.0.1:2889:3889:\\
   participant;2182
server.3=127.0.0.1:2890:3890:observer;2183
peerType=participant
"""
NEW = """server.1=127.0.0.1:2888:3888:participant
server.4=127.0.0.1:2891:3891:participant;0.0.0.0:2184
version=100000007"""


def written(directory: Path, text: str = STATIC, my_id: int = 1) -> Path:
    (directory / "myid").write_text(str(my_id))
    path = directory / "zoo.cfg"
    path.write_text(text.format(data=directory))
    return path


def reload(path: Path) -> ZooConfig:
    config = load(path)
    assert config.warnings == ()
    return config


def test_active_membership_is_moved_out_of_zoo_cfg(tmp_path: Path) -> None:
    path = written(tmp_path)
    before = reload(path)
    DynamicConfigFiles(path, 1).save(Membership.parse(NEW))
    assert (tmp_path / "zoo.cfg.dynamic.100000007").read_text() == "\n".join(NEW.split("\n")[:-1]) + "\n"
    assert (tmp_path / "zoo.cfg.bak").read_text() == STATIC.format(data=tmp_path)
    text = path.read_text()
    assert "# our ensemble" in text
    assert "server." not in text and "participant" not in text
    after = reload(path)
    assert after.membership == Membership.parse(NEW)
    assert (after.client_port, after.client_address) == (2181, "127.0.0.1")
    assert after.reconfig_enabled and after.tick_time == before.tick_time


def test_client_port_in_the_server_line_overrides_zoo_cfg(tmp_path: Path) -> None:
    path = written(tmp_path)
    line = NEW.replace("3888:participant", "3888:participant;127.0.0.1:2199")
    DynamicConfigFiles(path, 1).save(Membership.parse(line))
    after = reload(path)
    assert "clientPort" not in path.read_text()
    assert (after.client_port, after.client_address) == (2199, "127.0.0.1")


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_membership_without_client_port_keeps_the_open_port(tmp_path: Path, host: str) -> None:
    """If a new membership omits the server's client port, the server still listens on its former client port.

    Before the fix, zoo.cfg lost a port that only an earlier membership contained.
    """
    path = written(tmp_path)
    files = DynamicConfigFiles(path, 1)
    line = "server.1=127.0.0.1:2888:3888:participant"
    files.save(Membership.parse(f"{line};{host}:2199\nversion=100000007"))
    for version in ("100000008", "100000009"):
        files.save(Membership.parse(f"{line}\nversion={version}"))
        config = reload(path)
        assert (config.client_port, config.client_address) == (2199, host)


def test_membership_with_shared_loopback_ports_is_accepted(tmp_path: Path) -> None:
    """Servers on the same loopback host can share ports, as in ZooKeeper.

    If such a membership were rejected, the servers could never restart.
    """
    path = written(tmp_path)
    shared = "server.4=127.0.0.1:2888:3888:observer;0.0.0.0:2184"
    membership = Membership.parse(NEW.replace("server.4=127.0.0.1:2891:3891:participant;0.0.0.0:2184", shared))
    DynamicConfigFiles(path, 1).save(membership)
    assert reload(path).membership == membership


def test_proposed_membership_is_stored_until_it_is_active(tmp_path: Path) -> None:
    path = written(tmp_path)
    files = DynamicConfigFiles(path, 1)
    files.save(Membership.parse(NEW))
    later = Membership.parse(NEW).with_version(0x100000009)
    files.save_next(later)
    assert reload(path).next_membership == later
    assert reload(path).membership == Membership.parse(NEW)
    files.save(later)
    assert reload(path).next_membership is None
    assert reload(path).membership == later


def test_abandoned_proposed_membership_is_deleted(tmp_path: Path) -> None:
    path = written(tmp_path)
    files = DynamicConfigFiles(path, 1)
    files.save(Membership.parse(NEW))
    files.save_next(Membership.parse(NEW).with_version(0x100000009))
    files.save(Membership.parse(NEW))
    assert reload(path).next_membership is None


def test_crash_before_the_update_of_zoo_cfg_keeps_the_old_state(tmp_path: Path) -> None:
    path = written(tmp_path)
    files = DynamicConfigFiles(path, 1)
    files.save(Membership.parse(NEW))
    static = path.read_text()
    files.save(Membership.parse(NEW).with_version(0x100000009))
    path.write_text(static)
    membership = reload(path).membership
    assert membership is not None
    assert membership.version == 0x100000007


@pytest.mark.parametrize(
    ("dynamic", "extra", "message"),
    [
        (None, "", "cannot be read: No such file"),
        ("server.1=a:1:2\nversion=5", "", "version is in its name"),
        ("server.1=a:1:2\nclientPort=5", "", "clientPort is no key"),
        ("server.1=a:1:2", "server.2=b:1:2", "server.2 must be in the dynamic file"),
        ("server.2=a:1:2", "", "there is no server.1"),
    ],
)
def test_invalid_dynamic_file_is_reported_in_one_line(
    tmp_path: Path, dynamic: str | None, extra: str, message: str
) -> None:
    file = tmp_path / "zoo.cfg.dynamic"
    if dynamic is not None:
        file.write_text(dynamic)
    path = written(tmp_path, f"dataDir={{data}}\nclientPort=2181\ndynamicConfigFile={file}\n{extra}\n")
    with pytest.raises(ConfigError, match=message):
        load(path)


def test_unwritable_dynamic_files_are_reported_in_one_line(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "zoo.cfg.dynamic.next.tmp").mkdir()
    with pytest.raises(DataDirectoryError, match=r"zoo.cfg.dynamic.next cannot be written: Is a directory"):
        DynamicConfigFiles(path, 1).save_next(Membership.parse(NEW))


def test_dynamic_file_without_a_version_has_version_0(tmp_path: Path) -> None:
    file = tmp_path / "zoo.cfg.dynamic"
    file.write_text("server.1=a:1:2;2181\ngroup.1=1\n")
    membership = reload(written(tmp_path, f"dataDir={{data}}\ndynamicConfigFile={file}\n")).membership
    assert membership is not None
    assert (membership.version, membership.groups) == (0, {1: (1,)})


def test_single_server_runs_standalone_unless_disabled(tmp_path: Path) -> None:
    one = "dataDir={data}\nclientPort=1\ninitLimit=1\nsyncLimit=1\nserver.1=a:1:2\n"
    assert not reload(written(tmp_path, one)).distributed
    assert reload(written(tmp_path, one + "standaloneEnabled=false\n")).distributed
