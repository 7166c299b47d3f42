"""Files that operators and other programs write, as fuzz targets.

They are configurations, epochs, passwords, keys, strings in znodes, and journals.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

from tests.fuzz.choices import Target
from tests.fuzz.peer_targets import MEMBERS, small_snapshot
from zabka.ensemble.auth.jaas import digest_users
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import PeerId, Zxid
from zabka.ensemble.properties import read_properties
from zabka.ensemble.records import ReconfigRequest
from zabka.ensemble.server.config.config_values import ConfigError
from zabka.ensemble.server.config.dynamic_config import read_membership
from zabka.ensemble.server.config.tls import TlsSettings, TlsStore
from zabka.ensemble.server.config.zoo_cfg import load, parse
from zabka.ensemble.tree.quota import NO_LIMIT, Limits, parse_limits
from zabka.ensemble.tree.reconfig import new_membership
from zabka.ensemble.txnlog.epochs import check_epochs, read_epoch
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.restoring import read_received
from zabka.ensemble.txnlog.snapshots import SnapshotDamaged, read_snapshot, stage_snapshot, write_snapshot
from zabka.ensemble.zab.application import EnsembleView
from zabka.ensemble.zab.membership import BadMembership, Membership
from zabka.journal.reader import decode_line


@cache
def _directory() -> Path:
    """Return the directory for input files that the code under test reads by name."""
    directory = tempfile.mkdtemp(prefix="fuzz-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def zoo_cfg(data: bytes) -> None:
    """Parse a zoo.cfg: it is accepted, or rejected with a one-line reason."""
    directory = _directory()
    path = directory / "zoo.cfg"
    path.write_bytes(data)
    with suppress(ConfigError, DataDirectoryError):
        load(path)
    with suppress(ConfigError, DataDirectoryError):
        parse(f"dataDir={directory / 'none'}\nclientPort=1\n" + _text(data))
    with suppress(ConfigError):
        read_membership(read_properties(_text(data)))


def my_id(data: bytes) -> None:
    """Read a server's own id (myid). The result must be a number or an error."""
    directory = _directory()
    (directory / "myid").write_bytes(data)
    with suppress(ConfigError):
        assert 0 <= parse(f"dataDir={directory}\nclientPort=1\n").my_id <= 255


def membership(data: bytes) -> None:
    """Parse a membership. Formatting a valid one and parsing it again must yield the same membership."""
    text = _text(data)
    with suppress(BadMembership):
        found = Membership.parse(text)
        assert -(1 << 63) <= found.version < 1 << 63, "a version is a zxid"
        if found.voters:
            found.quorum.contains({PeerId(1): None})
        if found.lines:
            assert Membership.parse(found.text).text == found.text


def reconfig(data: bytes) -> None:
    """Apply a client's reconfig request: the result is a new membership or an error."""
    parts = [part or None for part in data.split(b"|")[:3]]
    joining, leaving, whole = (*parts, None, None, None)[:3]
    now = Membership.parse(MEMBERS)
    view = EnsembleView(now, now, (PeerId(1), PeerId(2)), True, False)
    found = new_membership(ReconfigRequest(joining, leaving, whole, -1), Zxid(1 << 32), view)
    assert isinstance(found, Membership | ErrorCode)
    if isinstance(found, Membership):
        assert Membership.parse(found.text).text == found.text


def jaas(data: bytes) -> None:
    """Read the users of a JAAS section. The result must be some users, none, or ValueError."""
    with suppress(ValueError):
        digest_users(_text(data), "Server")


def quota(data: bytes) -> None:
    """Read quota limits from any string."""
    limits = parse_limits(data)
    assert all(value >= NO_LIMIT for value in (limits.count, limits.bytes, limits.count_hard, limits.bytes_hard))
    assert isinstance(limits, Limits)


def epochs(data: bytes) -> None:
    """Read an epoch file. The result must be a number or a DataDirectoryError."""
    directory = _directory() / "epochs"
    directory.mkdir(exist_ok=True)
    current, _, accepted = data.partition(b"|")
    (directory / "currentEpoch").write_bytes(current)
    (directory / "acceptedEpoch").write_bytes(accepted)
    with suppress(DataDirectoryError):
        assert (read_epoch(directory, "currentEpoch") or 0) >= 0
        found = check_epochs(directory, 5 << 32)
        assert 0 <= found.current <= found.accepted


def snapshot_file(data: bytes) -> None:
    """Read snapshot files, compressed or not, and an uploaded snapshot.

    Each read returns a snapshot or raises SnapshotDamaged.
    """
    for suffix in ("", ".gz", ".snappy"):
        path = _directory() / f"snapshot.5{suffix}"
        path.write_bytes(data)
        with suppress(SnapshotDamaged):
            read_snapshot(path)
    with suppress(SnapshotDamaged):
        read_received(path)


def pem(data: bytes) -> None:
    """Read PEM keys and certificates: they are accepted, or rejected with a one-line reason."""
    path = _directory() / "store.pem"
    path.write_bytes(data)
    settings = TlsSettings(prefix="ssl.", key_store=path, key_password="p", trust_store=path)
    with suppress(ConfigError):
        TlsStore(settings)


def pkcs12(data: bytes) -> None:
    """Read PKCS12 stores and revocation lists. As in `pem`, they are accepted, or rejected with a one-line reason."""
    path = _directory() / "store.p12"
    path.write_bytes(data)
    stores = {"key_type": "PKCS12", "trust_type": "PKCS12"}
    for kinds, revoked in ((stores, None), ({}, path)):
        settings = TlsSettings(
            prefix="ssl.",
            key_store=path,
            key_password="p",
            trust_store=path,
            trust_password="p",
            revoked=revoked,
            **kinds,
        )
        with suppress(ConfigError):
            TlsStore(settings)


def journal_line(data: bytes) -> None:
    """Read a journal line: an event or ValueError."""
    with suppress(ValueError):
        decode_line(data)


CONFIGURATION = b"""# all sorts
dataDir=/nowhere
clientPort=2181
tickTime = 2000
initLimit:10
syncLimit=5
server.1=127.0.0.1:1:2:participant;127.0.0.1:3
server.2=[::1]:4:5:observer;6|[::2]:7:8
group.1=1:2
weight.1=3
4lw.commands.whitelist=srvr,\\
 mntr
secureClientPort=9
ssl.keyStore.location=/nowhere
authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
maxClientCnxns=60
jute.maxbuffer=0xfffff
"""
JAAS = b"""Server { // a comment
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_ann="se\\"cret" /* one */ user_bob=x; # another
};
"""
JOURNAL = (
    b'{"wall_us":1,"mono_us":1,"node":"peer-1","incarnation":"i","node_seq":1,"type":"node_stopped","reason":"x"}\n'
)


def _snapshot_files() -> list[bytes]:
    directory = _directory() / "written"
    directory.mkdir(exist_ok=True)
    write_snapshot(directory, small_snapshot())
    for suffix in (".gz", ".snappy"):
        stage_snapshot(directory / f"snapshot.9{suffix}", small_snapshot(), suffix)
    return [path.read_bytes() for path in directory.glob("snapshot.*")]


def _pkcs12_files() -> list[bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    return [serialize_key_and_certificates(b"k", key, None, None, BestAvailableEncryption(b"p")), b"0\x82"]


FILE_TARGETS: dict[str, Target] = {
    "zoo-cfg": Target(zoo_cfg, lambda: [CONFIGURATION, b"dataDir=/x\nclientPort=1\ndynamicConfigFile=/y.dynamic.1\n"]),
    "my-id": Target(my_id, lambda: [b"1\n", "²".encode(), b"9" * 20]),
    "membership": Target(membership, lambda: [MEMBERS.encode(), b"server.1=[::1]:1:2|h:3:4:observer;5\nversion=ff"]),
    "reconfig": Target(
        reconfig,
        lambda: [b"server.3=127.0.0.1:7:8;9|2|", b"||server.1=h:1:2;3,server.2=i:1:2;3", b"3=x:1:2:observer;4||"],
    ),
    "jaas": Target(jaas, lambda: [JAAS]),
    "quota": Target(quota, lambda: [b"count=5,bytes=-1=;byteHardLimit=100;countHardLimit=-1"]),
    "epochs": Target(epochs, lambda: [b"5|6", b"7\n| 7", "²|1".encode()]),
    "snapshot-file": Target(snapshot_file, _snapshot_files),
    "pem": Target(pem, lambda: [b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----\n"]),
    "pkcs12": Target(pkcs12, _pkcs12_files),
    "journal-line": Target(journal_line, lambda: [JOURNAL]),
}
