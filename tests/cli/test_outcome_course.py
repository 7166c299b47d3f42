"""`zabka what-if --every`: the share of futures that lose records, from moment to moment of a run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from itertools import islice

import pytest

from zabka.cli.forked_pair import Asked, AskedChange, BadChange
from zabka.cli.futures import Changes, Future, History, numbered, play_futures
from zabka.cli.outcome_course import Course, Moment, certain_from, courses, line, outcome_course, plot
from zabka.cli.spark_futures import spark_futures
from zabka.simulation.fork import Change
from zabka.simulation.settings import world_settings

SHORT = world_settings(["faults.ms=3500", "drawn.topics=false"])
CALM = Asked(2, "calm", SHORT, (AskedChange(4_000_000),))

ALONE = partial(play_futures, jobs=1)


def moment(at_us: int, *lost: int) -> Moment:
    return Moment(at_us, [Future(count, False, 0, 1_000_000, "") for count in lost])


@pytest.mark.parametrize(
    ("losing", "certain"),
    [([(0, 0), (1, 0), (1, 1), (2, 1)], 2), ([(1, 1), (0, 1), (1, 1)], 2), ([(0, 0), (1, 0)], None), ([], None)],
)
def test_loss_is_certain_from_the_last_rise_to_all_futures(
    losing: Sequence[Sequence[int]], certain: int | None
) -> None:
    assert certain_from([moment(at_us, *lost) for at_us, lost in enumerate(losing)]) == certain


def test_line_has_a_bar_the_share_and_the_median_time() -> None:
    shown = line(moment(2_500_000, 3, 0, 0, 0))
    assert shown.split("  ")[1:2] == [" 2.500 s"]
    assert shown.count("#") == 5
    assert "1 of 4 (5 to 70 %)" in shown and shown.endswith("1.000 s")


def test_plot_names_the_certain_moment_only_at_its_end() -> None:
    played = [moment(0, 1, 0), moment(500_000, 1, 1)]
    course = Course(900_000, range(0, 900_000, 500_000), played)
    found = plot(course, 2)
    assert (found.certain_us, found.loss_us, found.moments) == (500_000, 900_000, 2)
    assert [(each.at_us, each.losing, each.writable_us) for each in found.points] == [
        (0, 1, 1_000_000), (500_000, 2, 1_000_000)
    ]  # fmt: skip
    assert [round(each, 2) for each in (found.points[0].low, found.points[0].high)] == [0.09, 0.91]
    certain_so_far = Course(900_000, course.moments, played[1:])
    assert plot(certain_so_far, 2).certain_us is None


def test_report_of_a_calm_run_has_a_line_for_each_moment() -> None:
    lines = list(outcome_course(CALM, 1_500_000, 1, ALONE))
    moments = [each for each in lines if "0 of 1" in each]
    assert f"1 futures from each of {len(moments)} moments" in lines[0]
    assert [each.split()[0] for each in moments] == ["4.000", "5.500"]
    assert lines[-1] == "the run itself loses no committed records"


def test_futures_of_a_fork_have_its_changes_up_to_their_moment() -> None:
    """`courses` itself checks that the history of each future equals that of the fork."""
    played: list[Changes] = []

    def play(history: History, futures: Sequence[Changes]) -> list[Future]:
        played.extend(futures)
        return ALONE(history, futures)

    kill = AskedChange(5_000_000, kill=("broker-1",), lasts_ms=500)
    fork = CALM._replace(changes=(*CALM.changes, kill, kill._replace(at_us=6_000_000)))
    *_, last = islice(courses(fork, 1_000_000, 1, play), 4)
    assert len(last.played) == len(played) == 3
    assert [[each.at_us // 1_000_000 for each in changes] for changes in played] == [[4], [5, 5], [5, 6, 6]]
    assert [changes[-1].future for changes in played] == [1, 1, 1]
    assert all(each.killed == ("broker-1",) for changes in played for each in changes[:-1])


def test_moment_after_the_end_of_the_run_is_rejected() -> None:
    with pytest.raises(BadChange, match=r"--at 1000000.000 s: the run ends at"):
        list(outcome_course(CALM._replace(changes=(AskedChange(10**12),)), 2_000_000, 1, ALONE))


def test_first_moment_after_a_change_is_rejected() -> None:
    fork = CALM._replace(changes=(*CALM.changes, AskedChange(3_000_000, kill=("peer-1",))))
    with pytest.raises(BadChange, match=r"--at 3\.000 s lies before the previous change, at 4\.000 s"):
        list(outcome_course(fork, 1_000_000, 1, ALONE))


@pytest.mark.long
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs java")
def test_spark_tasks_play_the_same_futures() -> None:
    futures, history = numbered((Change(4_000_000),), 3), History(2, "calm", SHORT, ())
    with spark_futures("local[2]") as play:
        of_spark = play(history, futures)
    assert of_spark == ALONE(history, futures)
