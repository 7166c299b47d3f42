"""Actions of the search in runs with real files. After each action, no messages are in flight except those held by a
fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.simulation.injected_histories import INJECTED
from zabka.ensemble.ids import Epoch
from zabka.ensemble.zab.effects import SaveAcceptedEpoch
from zabka.ensemble.zab.messages import PeerState
from zabka.simulation.scenarios.core_player import recover
from zabka.simulation.scenarios.core_steps import Crash, Elect, Isolate, Run, Start, Write
from zabka.simulation.scenarios.file_steps import Confer, Rot, SpoilSnapshot, Vanish
from zabka.simulation.search import file_actions
from zabka.simulation.search.explore_steps import leading, serving
from zabka.simulation.search.protocol import Quiet
from zabka.simulation.search.stretches import Stretch
from zabka.simulation.steps.bare_file_ensemble import BareFileEnsemble

ALL = (1, 2, 3)


@pytest.fixture
def cores(tmp_path: Path) -> Iterator[BareFileEnsemble]:
    """Yield three servers with leader 3 and two writes that all of them have."""
    made = BareFileEnsemble(tmp_path, snap_count=1_000, commit_log_count=1)
    take(made, (Start(), Elect(ALL), Run(), Write(3, 2), Run()))
    assert list(serving(made)) == list(ALL)
    yield made
    made.close()


def take(cores: BareFileEnsemble, stretch: Stretch, quiet: Quiet | None = None) -> None:
    quiet = quiet or Quiet()
    for drawn in stretch:
        step = quiet.held_back(drawn)
        step.play(cores)
        quiet.follow(step)
        assert cores.problems == []


def test_held_messages_of_a_machine_without_power_are_released(cores: BareFileEnsemble) -> None:
    quiet = Quiet()
    quiet.follow(Run(hold=("3 > 1", "2 > 1", "disk 2")))
    take(cores, (Vanish(3), Run()), quiet)
    assert list(quiet.held) == ["2 > 1", "disk 2"]


@pytest.mark.parametrize(
    "actions", [file_actions.stops, file_actions.bounces, file_actions.depositions, file_actions.impatience]
)
def test_majority_serves_requests_after_any_fault_of_the_leader(
    cores: BareFileEnsemble, actions: Callable[[BareFileEnsemble], Iterator[Stretch]]
) -> None:
    take(cores, list(actions(cores))[-1])
    assert len(list(serving(cores))) >= 2
    assert max(node.disk.current for node in cores.nodes.values()) > 1


def test_restart_action_starts_previously_running_servers_or_all(cores: BareFileEnsemble) -> None:
    take(cores, next(stretch for stretch in file_actions.stops(cores)))
    first, second = file_actions.restarts_of_all(cores)
    take(cores, first)
    assert list(serving(cores)) == [2, 3]
    take(cores, second)
    assert list(serving(cores)) == list(ALL)


def test_restarted_machine_can_have_a_damaged_log_record(cores: BareFileEnsemble) -> None:
    flips = [step for stretch in file_actions.blinks(cores, 2) for step in stretch if isinstance(step, Rot)]
    assert flips == [Rot(2, "1.1"), Rot(2, "1.2")]


def test_disks_with_different_accepted_epochs_count_as_different(cores: BareFileEnsemble) -> None:
    others = (2, 3)
    assert file_actions.hold_the_same(cores, others)
    disk = cores.nodes[1].disk
    cores.nodes[1].disk = disk.after(SaveAcceptedEpoch(Epoch(disk.accepted + 1)))
    assert not file_actions.hold_the_same(cores, others)


def test_impossible_action_is_replaced_by_another_action_type(cores: BareFileEnsemble) -> None:
    assert list(file_actions.returns(cores)) == []
    instead = list(file_actions.or_else(file_actions.returns, file_actions.stops, cores))
    assert instead == list(file_actions.stops(cores))


def test_autopurge_after_each_load_leaves_fewer_logs(tmp_path: Path) -> None:
    logs = []
    for number, actions in enumerate((file_actions.loads, file_actions.loads_and_purges)):
        cores = BareFileEnsemble(tmp_path / str(number), snap_count=3, commit_log_count=1)
        take(cores, (Start(), Elect(ALL), Run()))
        for _ in range(3):
            take(cores, list(actions(cores))[-1])
        logs.append(len(cores.files(3).directories.logs()))
        cores.close()
    assert logs[0] > logs[1]


@pytest.mark.parametrize("peers", [3, 5])
def test_initial_writes_leave_an_ensemble_that_serves_in_epoch_2(tmp_path: Path, peers: int) -> None:
    cores = BareFileEnsemble(tmp_path, peers, snap_count=8, commit_log_count=1)
    take(cores, (Start(), Elect(cores.voters), *file_actions.earlier_life(peers, Random(1))))
    assert list(serving(cores)) == list(cores.voters)
    disk = cores.files(1)
    assert disk.current == 2 and 1 <= len(disk.history()) <= file_actions.EARLIER_WRITES_MAX
    cores.close()


def test_returning_peer_serves_only_after_its_slow_disk_synced(cores: BareFileEnsemble) -> None:
    quiet = Quiet()
    take(cores, next(stretch for stretch in file_actions.stops(cores)), quiet)
    at_once, slowly = file_actions.returns(cores)
    take(cores, slowly, quiet)
    assert list(serving(cores)) == [2, 3] and list(quiet.held) == ["disk 1"]
    take(cores, (Run(),))
    assert list(serving(cores)) == list(ALL)
    assert at_once[-1] == Run()


def test_last_write_of_a_dying_leader_reaches_at_most_one_server(cores: BareFileEnsemble) -> None:
    """A dying leader's last write reaches at most one other server.

    If no other server has the write, the leader truncates it from its log when it returns.
    """
    quiet = Quiet()
    _, and_dies, *_ = file_actions.last_writes(cores)
    take(cores, and_dies, quiet)
    assert [cores.files(peer).history()[2:] for peer in ALL] == [[], [], [0x1_0000_0003]]
    assert list(serving(cores)) == [1, 2] and not quiet.held
    take(cores, (Write(2), Run(), *next(file_actions.returns(cores))), quiet)
    assert [cores.files(peer).history()[2:] for peer in ALL] == [[0x2_0000_0001]] * 3
    assert len(list(file_actions.last_writes(cores))) == 6, "to nobody, or to one of two"


def test_peer_return_is_interrupted_after_one_leader_packet(cores: BareFileEnsemble) -> None:
    """The action interrupts the return of a peer after one packet of its leader.

    At that time the peer's log is truncated. A snapshot would contain the truncated write, as with the injected bug.
    """
    quiet = Quiet()
    _, and_dies, *_ = file_actions.last_writes(cores)
    take(cores, and_dies, quiet)
    cut = Run(("Trunc 2 > 3",))
    [spoilt] = [each for each in file_actions.interrupted_returns(cores) if cut in each and SpoilSnapshot(3) in each]
    at = spoilt.index(SpoilSnapshot(3))
    take(cores, spoilt[:at], quiet)
    peer = cores.nodes[3].peer
    assert peer is not None and peer._core.awaiting_recovery
    take(cores, spoilt[at:], quiet)
    assert cores.files(3).history() == cores.files(2).history()


def test_interrupted_return_detects_premature_snapshot_repair(
    cores: BareFileEnsemble,
) -> None:
    with INJECTED["a spoiled snapshot is made good at once"]():
        _, and_dies, *_ = file_actions.last_writes(cores)
        take(cores, and_dies)
        cut = Run(("Trunc 2 > 3",))
        [spoilt] = [
            each for each in file_actions.interrupted_returns(cores) if cut in each and SpoilSnapshot(3) in each
        ]
        for step in (*spoilt, Write(2), Run()):
            step.play(cores)
    assert cores.problems == ["processConsistency: 3 acknowledged 2's history with another of its own"]


def test_two_leaders_without_followers_both_resign(cores: BareFileEnsemble) -> None:
    """Two servers that each regard themselves as the leader give up when they time out.

    The third server, which does not vote, stays LOOKING, so neither gets a follower.
    """
    take(cores, (Isolate(3), Confer((1, 2)), Vanish(1), Start((1,)), Confer((1, 3)), Vanish(1), Rot(1, "1.2")))
    take(cores, (Start((1,)), Confer((1,))))
    states = [status.state for peer in ALL if (status := cores.nodes[peer].status) is not None]
    assert states == [PeerState.LOOKING, PeerState.LEADING, PeerState.LEADING] and not list(serving(cores))
    assert recover(cores) == []


def test_two_machines_lose_power_together_or_in_sequence(cores: BareFileEnsemble) -> None:
    dark = list(file_actions.blackouts(cores, 2))
    assert [stretch[:2] for stretch in dark if len(stretch) == 5] == [
        (Vanish(1), Vanish(2)), (Vanish(1), Vanish(3)), (Vanish(2), Vanish(3)),
    ]  # fmt: skip
    assert all(Rot(2, "1.1") in stretch or Rot(2, "1.2") in stretch for stretch in dark if len(stretch) == 6)
    in_a_row = list(file_actions.blinks_in_a_row(cores, 2))
    assert [stretch[0] for stretch in in_a_row] == [Vanish(3), Write(3)] * 2, "or while a write is on its way"
    blinks = [[step for step in stretch if isinstance(step, Vanish)] for stretch in in_a_row]
    assert blinks == [[Vanish(3), Vanish(other)] for other in (1, 1, 2, 2)]
    take(cores, in_a_row[0])
    assert list(file_actions.settling(cores)) or list(serving(cores)) == list(ALL)


def test_connections_to_a_machine_without_power_are_closed(cores: BareFileEnsemble) -> None:
    assert list(file_actions.settling(cores)) == [], "nothing is to be settled"
    take(cores, (Vanish(3),))
    assert len(list(file_actions.half_open(cores))) == 2
    [settled] = file_actions.settling(cores)
    take(cores, settled)
    assert list(serving(cores)) == [1, 2] and list(file_actions.half_open(cores)) == []


@pytest.fixture
def five(tmp_path: Path) -> Iterator[BareFileEnsemble]:
    """Yield five servers with leader 5 and two writes that all of them have."""
    made = BareFileEnsemble(tmp_path / "five", 5, snap_count=1_000, commit_log_count=1)
    take(made, (Start(), Elect(made.voters), Run(), *(Write(5), Run()) * 2))
    yield made
    made.close()


def test_peer_stopped_while_rejoining_leaves_write_on_a_minority(five: BareFileEnsemble) -> None:
    """If a peer stops while it returns to its leader, the leader's last write is only on a minority.

    The other servers then elect a new leader, without this peer and without the former leader.
    """
    take(five, (*down(1, five), *(Write(5), Run()) * 2))
    vain = list(file_actions.returns_in_vain(five))
    take(five, vain[0])
    assert [five.files(peer).history()[2:] for peer in (1, 2, 5)] == [
        [0x1_0000_0003, 0x1_0000_0004, 0x1_0000_0005], [0x1_0000_0003, 0x1_0000_0004],
        [0x1_0000_0003, 0x1_0000_0004, 0x1_0000_0005],
    ]  # fmt: skip
    assert list(serving(five)) == [2, 3, 4]


def test_failed_return_action_stops_a_peer_only_with_5_servers(five: BareFileEnsemble, cores: BareFileEnsemble) -> None:
    """The action "failed return" stops a running peer, and is possible only with five servers.

    With three servers, there is no quorum without the returning peer and the leader.
    """
    gone = [stretch[0] for stretch in file_actions.returns_in_vain(five)]
    assert gone == [Crash((peer,)) for peer in (1, 2, 3, 4) for _ in range(3)]
    take(five, next(file_actions.returns_in_vain(five)))
    assert five.files(1).history()[-1] == 0x1_0000_0006 and list(serving(five)) == [2, 3, 4], "it missed three"
    assert list(file_actions.returns_in_vain(cores)) == []


def test_isolated_leader_leads_again_in_the_same_process(cores: BareFileEnsemble) -> None:
    leader = cores.nodes[3].peer
    [again] = file_actions.second_terms(cores)
    take(cores, again)
    assert list(leading(cores)) == [3] and cores.nodes[3].peer is leader
    assert [cores.files(peer).history()[2:] for peer in (1, 3)] == [
        [0x2_0000_0001, 0x2_0000_0002, 0x3_0000_0001, 0x3_0000_0002]
    ] * 2


def test_records_that_an_absent_server_missed_can_be_damaged(cores: BareFileEnsemble) -> None:
    ordinary = [
        stretch for stretch in file_actions.absences(cores, 1) if Start((2,)) in stretch or Start((1,)) in stretch
    ]
    assert len(ordinary) == 2 * 6, "two who may be away, and six absences each"
    stays, comes_back = next(file_actions.absences(cores, 3)), ordinary[0]
    flips = [step for stretch in file_actions.absences(cores, 3) for step in stretch if isinstance(step, Rot)]
    assert {flip.zxid for flip in flips} == {"1.3", "1.4", "1.5", "1.6"}
    take(cores, stays)
    assert list(serving(cores)) == [2, 3]
    assert [cores.files(peer).history()[2:] for peer in ALL] == [[], *[[0x1_0000_0003, 0x2_0000_0001]] * 2]
    assert comes_back[: len(stays)] == stays and comes_back[-1] == Run()
    assert all(Crash((1,)) not in stretch for stretch in file_actions.absences(cores, 3)), "it is away"


def down(peer: int, cores: BareFileEnsemble) -> Stretch:
    others = tuple(other for other in cores.voters if other != peer)
    return (Crash((peer,)), Run(), Confer(others), Run())


def test_return_after_absence_detects_reading_past_log_damage(cores: BareFileEnsemble, tmp_path: Path) -> None:
    """The action "return after absence" detects the bug that reading continues after damage in the log.

    The leader's log has a gap at the end of an epoch, which the zxids alone do not show.
    """

    def absence(cores: BareFileEnsemble) -> Stretch:
        return next(stretch for stretch in file_actions.absences(cores, 3) if stretch[-1] == Rot(3, "1.3"))

    def stays_away(cores: BareFileEnsemble) -> Stretch:
        return next(stretch for stretch in file_actions.absences(cores, 3) if Write(3) in stretch)

    other = BareFileEnsemble(tmp_path / "other", snap_count=1_000, commit_log_count=1)
    take(other, (Start(), Elect(ALL), Run(), Write(3), Run(), Write(3), Run()))
    with INJECTED["reading goes on behind damage"]():
        take(cores, absence(cores))
        for step in next(file_actions.returns(cores)):
            step.play(cores)
        take(other, stays_away(other))
        back = [stretch for stretch in file_actions.returns_to_damage(other, 3) if stretch[0] == Rot(3, "1.3")]
        for step in back[0]:
            step.play(other)
    for each in (cores, other):
        assert each.problems[0] == "processConsistency: 1 acknowledged 3's history with another of its own"
    other.close()


def test_restarts_in_sequence_detect_election_of_incomplete_peer(cores: BareFileEnsemble) -> None:
    """The action "restarts in sequence" detects the bug that an incomplete peer is elected.

    The leader loses a write that one follower does not have. That follower restarts, and the two servers are a quorum
    without the write.
    """
    with INJECTED["who has lost history is elected for its past"]():
        in_a_row = list(file_actions.blinks_in_a_row(cores, 3))
        [blinks] = [stretch for stretch in in_a_row if {Write(3), Rot(3, "1.3"), Vanish(1)} <= set(stretch)]
        for step in blinks:
            step.play(cores)
    assert cores.problems[0] == (
        "no acknowledged write lost: peer-3 leads epoch 2 with a history up to 0x100000002, "
        "but 0x100000003 was acknowledged"
    )


def test_second_return_of_a_leader_detects_stale_log_positions(five: BareFileEnsemble) -> None:
    """The action "second return" detects the bug that a leader reuses a read position saved before its log was
    truncated.

    The leader reads its log up to a write that is then truncated. It becomes leader again, and reads from the saved
    position for a peer that still has the write.
    """
    with INJECTED["places in the log outlive what was there"]():
        _, _, leads_again, *_ = file_actions.returns_in_vain(five)
        take(five, leads_again)
        back = next(stretch for stretch in file_actions.returns(five) if Start((1,)) in stretch)
        for step in back:
            step.play(five)
    assert five.problems[0] == "processConsistency: 1 acknowledged 5's history with another of its own"
