"""Membership of the ensemble: read from zoo.cfg or its dynamic file, and written when it changes.

Sources: QuorumPeerConfig (parse, writeDynamicConfig, editStaticConfig), QuorumPeer.setQuorumVerifier. The active
membership is in `zoo.cfg.dynamic.<version>`, to which zoo.cfg refers; a proposed membership is in
`zoo.cfg.dynamic.next`. Each file is written completely and synced before another file refers to it, so that a crash
leaves either the old or the new state.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from zabka.ensemble.ids import PeerId
from zabka.ensemble.properties import (
    JAVA_BLANKS,
    BadProperties,
    decode_properties,
    logical_lines,
    property_line,
    read_properties,
    split_property,
    trimmed,
)
from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.server.config.config_values import ConfigError
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.files import exists, read_bytes, remove_all, replace_file
from zabka.ensemble.zab.membership import PEER_ID_MAX, BadMembership, Membership, membership_from

_POINTER = "dynamicConfigFile"


def is_membership_key(key: str) -> bool:
    """Return whether this zoo.cfg key defines a part of the membership."""
    return key.startswith(("server.", "group.", "weight."))


def read_membership(raw: Mapping[str, str], files: Files = HOST) -> Membership | None:
    """Return the membership in a zoo.cfg or its dynamic file, or None for a standalone server. Raises ConfigError."""
    members = {key: value for key, value in raw.items() if is_membership_key(key)}
    if _POINTER not in raw:
        return _checked(members, 0) if members else None
    if members:
        raise ConfigError(f"{next(iter(members))} must be in the dynamic file that {_POINTER} names")
    path = Path(raw[_POINTER])
    members = _properties_of(path, files)
    if "version" in members:
        raise ConfigError(f"{path}: a dynamic file's version is in its name, not inside")
    return _checked(members, _version_of(path))


def peer_type_warnings(raw: Mapping[str, str], membership: Membership | None, my_id: int) -> tuple[str, ...]:
    """Return a warning if zoo.cfg's peerType differs from the role in this server's `server.N` line.

    The role in the `server.N` line is used. Source: setupPeerType.
    """
    role = "observer" if membership is not None and my_id in membership.observers else "participant"
    said = raw.get("peerType", role).lower()
    return () if said == role else (f"peerType={said} is ignored: this server's own line says {role}",)


def read_next_membership(config: Path, files: Files = HOST) -> Membership | None:
    """Return the last proposed membership, or None if it is already active.

    Raises ConfigError.
    """
    path = _next_of(config)
    if not exists(path, files):
        return None
    try:
        return membership_from(_properties_of(path, files))
    except BadMembership as bad:
        raise ConfigError(f"{path}: {bad}") from None


def _properties_of(path: Path, files: Files) -> dict[str, str]:
    try:
        return trimmed(read_properties(decode_properties(read_bytes(path, files))))
    except BadProperties as bad:
        raise ConfigError(f"{path} is not a Java properties file: {bad}") from None
    except (OSError, ValueError) as bad:  # the file does not exist, or the path has no file name
        raise ConfigError(f"{path} cannot be read: {getattr(bad, 'strerror', None) or bad}") from None


def _version_of(path: Path) -> int:
    """Return the hexadecimal version in a file name such as zoo.cfg.dynamic.100000000; 0 if there is none."""
    try:
        return int(path.suffix[1:], 16)
    except ValueError:
        return 0


def _next_of(config: Path) -> Path:
    return config.with_name(config.name + ".dynamic.next")


def _is_peer_id(text: str) -> bool:
    return text.isdecimal() and len(text) < 9 and int(text) <= PEER_ID_MAX


def _checked(members: Mapping[str, str], version: int) -> Membership:
    for key in members:
        _, _, number = key.partition(".")
        if key.startswith("server.") and not _is_peer_id(number):
            raise ConfigError(f"{key}: a server's id is a number from 0 to {PEER_ID_MAX}")
    try:
        membership = membership_from(members)
    except BadMembership as bad:
        raise ConfigError(str(bad)) from None
    if not version:
        # Check the addresses of an initial membership only. A membership from a reconfiguration is already active: an
        # error at startup because of an invalid address would not revert it.
        _check_addresses(membership)
    if not membership.voters:
        raise ConfigError("every server is an observer: at least one participant is needed")
    return membership.with_version(version)


def _check_addresses(membership: Membership) -> None:
    seen: dict[tuple[str, int], PeerId] = {}
    for number, line in membership.lines.items():
        for port in (line.quorum_port, line.election_port):
            other = seen.setdefault((line.host, port), number)
            if other != number or line.quorum_port == line.election_port:
                raise ConfigError(f"server.{number} uses {line.host}:{port} twice, or shares it with server.{other}")


class DynamicConfigFiles:
    """Dynamic configuration files of a zoo.cfg. A write is durable when the call returns.

    Raises DataDirectoryError if a file cannot be written.
    """

    def __init__(self, config: Path, my_id: int, files: Files = HOST) -> None:
        self._files = files
        self._config = files.resolve(config)
        self._my_id = PeerId(my_id)

    def save_next(self, membership: Membership) -> None:
        """Store a proposed membership; the active membership remains stored."""
        _write(_next_of(self._config), _as_file(membership.text), self._files)

    def save(self, membership: Membership) -> None:
        """Store an active membership durably.

        Write its dynamic file, then set that file's name in zoo.cfg, then delete the proposed membership.
        """
        if membership.version:
            path = self._config.with_name(f"{self._config.name}.dynamic.{membership.version:x}")
            _write(path, _as_file("\n".join(membership.text.split("\n")[:-1])), self._files)
            static = decode_properties(read_bytes(self._config, self._files))
            if _POINTER not in trimmed(read_properties(static)):
                _write(self._config.with_name(self._config.name + ".bak"), static, self._files)
            mine = membership.lines.get(self._my_id)
            named = mine is not None and mine.client_port is not None
            text = _pointing_at(path, static, drops_client_port=named)
            _write(self._config, text if named else self._with_client_port(text, static), self._files)
        if exists(_next_of(self._config), self._files):
            remove_all([_next_of(self._config)], self._files)

    def _with_client_port(self, text: str, static: str) -> str:
        """Return the zoo.cfg text with this server's client port, which the new membership does not contain.

        Use the client port of the previous membership, because that port is open and stays open.
        """
        values = trimmed(read_properties(static))
        try:
            before = read_membership(values, self._files)
        except ConfigError:
            before = None
        mine = before.lines.get(self._my_id) if before is not None else None
        if "clientPort" in values or mine is None or mine.client_port is None:
            return text
        host = [property_line("clientPortAddress", mine.client_host)] if mine.client_host else []
        return "\n".join([text, f"clientPort={mine.client_port}", *host])


def _write(path: Path, text: str, files: Files) -> None:
    try:
        replace_file(path, text.rstrip("\n").encode("iso-8859-1") + b"\n", path.name + ".tmp", files)
    except OSError as failed:
        # Report the failure. ZooKeeper ignores it, and loses the membership at its next restart.
        reason = f"{path} cannot be written: {failed.strerror or failed}"
        raise DataDirectoryError(f"{reason}; with reconfigEnabled=true the membership is kept there") from None


def _pointing_at(path: Path, static: str, *, drops_client_port: bool) -> str:
    """Return the zoo.cfg `static` with its membership lines replaced by a reference to the dynamic file `path`.

    The client port is removed too, if this server's membership line contains it. Everything else is unchanged,
    including comments.
    """
    kept = ""
    for line in logical_lines(static):
        key = split_property(line.content)[0].strip(JAVA_BLANKS) if line.content is not None else ""
        dropped = (
            is_membership_key(key)
            or key in (_POINTER, "peerType")
            or (drops_client_port and key in ("clientPort", "clientPortAddress"))
        )
        if not dropped:
            kept += line.source
    # The first newline ends the last line. A second newline is needed if that line ends with a backslash, which
    # continues the line.
    ends = "" if kept.endswith(("\n", "\r")) or not kept else "\n\n" if kept.endswith("\\") else "\n"
    return kept + ends + property_line(_POINTER, str(path))


def _as_file(membership: str) -> str:
    """Convert a membership to the format of a Java properties file."""
    lines = (line.partition("=") for line in membership.split("\n"))
    return "\n".join(property_line(key, value) for key, _, value in lines)
