"""Results of a reconfig request: ZooKeeper's checks, in ZooKeeper's order."""

from __future__ import annotations

import msgspec
import pytest

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import PeerId, SessionId, Zxid, make_zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import OpCode, ReconfigRequest
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree.proposer import Proposer
from zabka.ensemble.tree.reconfig import new_membership
from zabka.ensemble.tree.sessions import SessionTracker
from zabka.ensemble.txn import ErrorTxn, SetDataTxn, Txn
from zabka.ensemble.zab.application import EnsembleView
from zabka.ensemble.zab.membership import Membership
from zabka.ensemble.zab.messages import ForwardedRequest

THREE = Membership.parse(
    "server.1=10.0.0.1:1:2:participant;0.0.0.0:3\n"
    "server.2=10.0.0.2:1:2:participant;0.0.0.0:3\n"
    "server.3=10.0.0.3:1:2:participant;0.0.0.0:3\nversion=100000000"
)
VERSION = THREE.version
ZXID = make_zxid(1, 5)
FOUR = "server.4=10.0.0.4:1:2:observer;0.0.0.0:3"
NOW = Instant(0, 1_000_000)
SUPER = (("super", ""),)


def view(synced: tuple[int, ...] = (1, 2, 3), *, enabled: bool = True, current: Membership = THREE) -> EnsembleView:
    return EnsembleView(current, current, tuple(PeerId(i) for i in synced), enabled, standalone_enabled=True)


def ask(
    joining: str | None = None,
    leaving: str | None = None,
    members: str | None = None,
    config_id: int = -1,
    ensemble: EnsembleView | None = None,
) -> Membership | ErrorCode:
    parts = [None if part is None else part.encode() for part in (joining, leaving, members)]
    request = ReconfigRequest(parts[0], parts[1], parts[2], config_id)
    return new_membership(request, ZXID, ensemble or view())


def changed(outcome: Membership | ErrorCode) -> Membership:
    assert isinstance(outcome, Membership), outcome
    return outcome


def test_reconfig_adds_joining_and_removes_leaving_servers() -> None:
    joined = changed(ask(joining=FOUR))
    assert FOUR in joined.text.split("\n")
    assert joined.text.endswith(f"version={ZXID:x}")
    assert ask(joining=FOUR.replace("=", " == ")) == joined, "empty parts between equals signs are ignored"
    assert (joined.voters, joined.observers) == ((1, 2, 3), (4,))
    assert changed(ask(leaving="3,9")).voters == (1, 2)
    assert changed(ask(joining=FOUR.replace("observer", "participant"), leaving="1")).voters == (2, 3, 4)


def test_rejoining_server_gets_the_new_server_line() -> None:
    moved = changed(ask(joining="server.3=10.0.0.9:1:2:observer;5"))
    assert "server.3=10.0.0.9:1:2:observer;0.0.0.0:5" in moved.text
    assert moved.observers == (3,)


def test_new_membership_list_allows_commas_lines_and_groups() -> None:
    lines = "server.1=a:1:2;3,server.2=b:1:2;3,server.3=c:1:2;3"
    assert changed(ask(members=lines)).voters == (1, 2, 3)
    grouped = changed(ask(members=lines.replace(",", "\n") + "\ngroup.1=1:2:3\nweight.1=2"))
    assert grouped.hierarchical
    assert "weight.1=2" in grouped.text


def test_second_reconfig_returns_reconfig_in_progress() -> None:
    under_way = EnsembleView(THREE, THREE.with_version(ZXID), (PeerId(1), PeerId(2)), True, True)
    assert ask(joining="nonsense", ensemble=under_way) is ErrorCode.RECONFIG_IN_PROGRESS


def test_reconfig_version_is_checked_before_the_request() -> None:
    assert ask(joining="nonsense", config_id=VERSION + 1) is ErrorCode.BAD_VERSION
    assert isinstance(ask(joining=FOUR, config_id=VERSION), Membership)


@pytest.mark.parametrize(
    "request_",
    [
        {"joining": "some thing"},
        {"joining": "server.4=10.0.0.4:1"},
        {"joining": "server.4=10.0.0.4:1:2:observer"},
        {"joining": "server.4=10.0.0.4:1:1:observer;3"},
        {"joining": "server.4=10.0.0.1:9:2:observer;3"},
        {"joining": "server.4=10.0.0.4:1:2=3;4"},
        {"joining": "="},
        {"joining": "=10.0.0.4:1:2;3"},
        {"joining": "server.4="},
        {"leaving": "2,3"},
        {"members": "server.1=a:1:2;3"},
        {"members": "server.1=a:1:2;3\nclientPort=5"},
        {"members": ""},
        {"members": "server.1=10.0.0.1:1:2;3,server.2=10.0.0.2:9:9;3"},
    ],
)
def test_unreadable_or_too_small_membership_gets_bad_arguments(request_: dict[str, str]) -> None:
    assert ask(**request_) is ErrorCode.BAD_ARGUMENTS


@pytest.mark.parametrize(
    "request_",
    [{"leaving": "one"}, {"joining": "server.x=a:1:2;3"}, {"members": "server.x=a:1:2;3"}, {"members": FOUR}],
)
def test_non_numeric_id_or_missing_voters_is_marshalling_error(request_: dict[str, str]) -> None:
    """A server id that is not a number, or a list of observers only, gets MARSHALLING_ERROR, as in ZooKeeper 3.9.5."""
    assert ask(**request_) is ErrorCode.MARSHALLING_ERROR


def test_two_voters_with_an_observer_are_a_valid_membership() -> None:
    two = "server.1=10.0.0.1:1:2:participant;3,server.2=10.0.0.2:1:2:participant;3," + FOUR
    made = changed(ask(members=two))
    assert (made.voters, made.observers) == ((1, 2), (4,))


def test_servers_on_a_loopback_host_can_share_an_address() -> None:
    local = "server.4=127.0.0.1:1:2:observer;3,server.5=127.0.0.1:1:2:observer;3"
    assert changed(ask(joining=local)).observers == (4, 5)


def test_incremental_reconfig_of_groups_gets_bad_arguments() -> None:
    grouped = Membership.parse(THREE.text.replace("version", "group.1=1:2:3\nversion"))
    assert ask(joining=FOUR, ensemble=view(current=grouped)) is ErrorCode.BAD_ARGUMENTS


def test_reconfig_needs_a_synced_quorum_of_the_new_membership() -> None:
    five = "server.4=10.0.0.4:1:2;3,server.5=10.0.0.5:1:2;3"
    assert ask(joining=five, ensemble=view((1, 2))) is ErrorCode.NEW_CONFIG_NO_QUORUM
    assert changed(ask(joining=five, ensemble=view((1, 2, 5)))).voters == (1, 2, 3, 4, 5)
    assert ask(leaving="1", ensemble=view((1, 2))) is ErrorCode.NEW_CONFIG_NO_QUORUM


# ---- the reconfig transaction ---------------------------------------------------------------------------------------


def prepared(auth: tuple[tuple[str, str], ...], ensemble: EnsembleView, joining: bytes = FOUR.encode()) -> Txn:
    tracker = SessionTracker(2000, NOW)
    tracker.track(NOW, SessionId(7), 6000)
    proposer = Proposer(DataTree(), tracker)
    body = ReconfigRequest(joining, None, None, -1).encode()
    request = ForwardedRequest(SessionId(7), 1, OpCode.RECONFIG, body, auth)
    return proposer.prepare_reconfig(NOW, request, Zxid(ZXID), None, ensemble)


def error_of(txn: Txn) -> int:
    assert isinstance(txn.body, ErrorTxn), txn
    return txn.body.err


def test_reconfig_is_rejected_unless_enabled() -> None:
    assert error_of(prepared((), view(enabled=False), b"nonsense")) == ErrorCode.RECONFIG_DISABLED


def test_write_permission_for_reconfig_is_checked_last() -> None:
    assert error_of(prepared((), view(), b"nonsense")) == ErrorCode.BAD_ARGUMENTS
    assert error_of(prepared((), view((1,)))) == ErrorCode.NEW_CONFIG_NO_QUORUM
    assert error_of(prepared((), view())) == ErrorCode.NO_AUTH


@pytest.mark.parametrize(
    "joining", [b"server.256=10.0.0.4:1:2:observer;3", b"server.4=10.0.0.4:1:2|10.0.1.4:1:2:observer;3"]
)
def test_reconfig_permission_is_checked_before_joining_servers(
    joining: bytes,
) -> None:
    """A reconfig request without permission is rejected before its joining servers are checked.

    The reason is explained at `read_membership`. kazoo's test suite requests a server 999 without permission.
    """
    assert error_of(prepared((), view(), joining)) == ErrorCode.NO_AUTH
    assert error_of(prepared(SUPER, view(), joining)) == ErrorCode.BAD_ARGUMENTS


def test_server_can_join_with_several_addresses_if_enabled() -> None:
    several = msgspec.structs.replace(view(), several_addresses=True)
    txn = prepared(SUPER, several, b"server.4=10.0.0.4:1:2|10.0.1.4:1:2:observer;3")
    assert isinstance(txn.body, SetDataTxn)
    assert len(Membership.parse(txn.body.data.decode()).lines[PeerId(4)].addresses) == 2


def test_standalone_server_cannot_be_reconfigured() -> None:
    alone = Membership(0, (PeerId(1),))
    assert error_of(prepared(SUPER, view((1,), current=alone))) == ErrorCode.UNIMPLEMENTED


def test_reconfig_updates_the_config_znode() -> None:
    txn = prepared(SUPER, view())
    assert txn.type == OpCode.RECONFIG
    assert isinstance(txn.body, SetDataTxn)
    assert (txn.body.path, txn.body.version) == ("/zookeeper/config", -1)
    tree = DataTree()
    before = tree.digest
    tree.apply(txn)
    stat = tree.stat("/zookeeper/config")
    assert stat is not None
    assert (stat.mzxid, stat.version) == (ZXID, -1)
    assert tree.digest == before
