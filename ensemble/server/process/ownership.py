"""Check that a data directory belongs to this server and ensemble.

A server must not start with another server's epochs, or with another ensemble's history. ZooKeeper has no such check: a
joining server whose history is ahead of the ensemble's would win the election, and its history would replace that of
the other servers.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path

import msgspec

from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.server.config.dynamic_config import DynamicConfigFiles
from zabka.ensemble.server.config.zoo_cfg import ZooConfig
from zabka.ensemble.txnlog.directory import VERSION_DIRECTORY
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.files import read_bytes, replace_file, write_bytes
from zabka.ensemble.zab.membership import Membership
from zabka.ensemble.zab.server_line import ServerLine

OWNER_NAME = ".owner"


class Owner(msgspec.Struct, frozen=True, omit_defaults=True):
    """The server that last used a data directory, and its ensemble: host:quorumPort keyed by server id.

    `earlier` contains the addresses before a new membership was stored, because zoo.cfg may still contain them after a
    crash.
    """

    server: int
    ensemble: dict[str, str]
    earlier: list[str] = []

    @property
    def addresses(self) -> set[str]:
        """Current and earlier addresses of the ensemble."""
        return {*self.ensemble.values(), *self.earlier}


def claim(config: ZooConfig, files: Files = HOST) -> None:
    """Record this server and its ensemble as owner of an existing, locked data directory.

    A standalone server records no owner. Raises OSError, and DataDirectoryError with a one-line message if the
    directory belongs to another server or ensemble.
    """
    if not config.servers:
        return
    path = config.data_dir / VERSION_DIRECTORY / OWNER_NAME
    present = Owner(config.my_id, _ensemble(config.servers.items()))
    before = _read(path, files)
    if before is not None and before.server != present.server:
        raise DataDirectoryError(
            f"{path.parent} is the data of server {before.server}, but myid says {present.server}: put that right, or "
            f"start with an empty dataDir (the others fill it); delete {path} if this is meant"
        )
    if before is not None and _strange(config, before, present):
        raise DataDirectoryError(
            f"{path.parent} is the data of another ensemble ({_named(before)}), not of {_named(present)}: start with "
            f"its own dataDir or an empty one; delete {path} if every server was moved"
        )
    if before != present:
        staged = path.with_suffix(".tmp")
        write_bytes(staged, msgspec.json.encode(present), files)
        files.rename(staged, path)


def _strange(config: ZooConfig, before: Owner, present: Owner) -> bool:
    """Return whether the data belongs to another ensemble: the two ensembles have no address in common.

    Addresses are also compared after resolving host names. Returns False for a server with a control socket, which gets
    new addresses at each `zabka up`.
    """
    if config.control_socket is not None or not before.addresses.isdisjoint(present.ensemble.values()):
        return False
    return _resolved(before.addresses).isdisjoint(_resolved(present.ensemble.values()))


def _resolved(addresses: Iterable[str]) -> set[tuple[str, str]]:
    """Return the (IP address, port) pairs of the "host:port" addresses whose host can be resolved."""
    found: set[tuple[str, str]] = set()
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            known = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            continue
        found |= {(str(each[4][0]), port) for each in known}
    return found


class OwnedMembershipFiles:
    """Stores the membership in the dynamic configuration files and in the data directory's owner file.

    So after all servers have changed their addresses by reconfiguration, a restarted server still accepts its data
    directory.
    """

    def __init__(self, kept: DynamicConfigFiles, config: ZooConfig, files: Files = HOST) -> None:
        self._kept = kept
        self._path = config.data_dir / VERSION_DIRECTORY / OWNER_NAME
        self._my_id = config.my_id
        self._files = files

    def save_next(self, membership: Membership) -> None:
        """Store a proposed membership, as `DynamicConfigFiles.save_next` does."""
        self._kept.save_next(membership)

    def save(self, membership: Membership) -> None:
        """Store an active membership, as `DynamicConfigFiles.save` does.

        Raises OSError if the owner file cannot be written.
        """
        before = _read(self._path, self._files)
        ensemble = _ensemble(membership.lines.items())
        present = Owner(self._my_id, ensemble)
        if before is not None and before.addresses != present.addresses:
            self._write(Owner(self._my_id, ensemble, sorted(before.addresses)))
        self._kept.save(membership)
        # Remove the earlier addresses only now: after this, another ensemble may use them.
        if before != present:
            self._write(present)

    def _write(self, owner: Owner) -> None:
        replace_file(self._path, msgspec.json.encode(owner), OWNER_NAME + ".tmp", self._files)


def _ensemble(lines: Iterable[tuple[int, ServerLine]]) -> dict[str, str]:
    return {str(number): f"{line.host}:{line.quorum_port}" for number, line in lines}


def _named(owner: Owner) -> str:
    return ", ".join(f"server.{number}={address}" for number, address in sorted(owner.ensemble.items())[:3])


def _read(path: Path, files: Files) -> Owner | None:
    try:
        return msgspec.json.decode(read_bytes(path, files), type=Owner)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError:
        # A crash left an incomplete file, which does not prove an owner.
        return None
