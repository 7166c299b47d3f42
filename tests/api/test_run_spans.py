"""Timeline spans of a whole run or of a part of it, and how short spans are merged."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.api.histories import collect_history, copies, keep, kept_run, played
from zabka.api.collector.collector import Collector
from zabka.api.runs.history import CHECKPOINT_EVERY, Checkpoints
from zabka.api.runs.kept import JOURNAL, KeptRuns
from zabka.api.runs.lanes import encoded, lanes
from zabka.api.runs.rewind import Lasted, Rewind
from zabka.api.runs.run_file import RunFile
from zabka.journal.events import Entry
from zabka.journal.spans import Span, Spans


def folded(history: Sequence[Entry]) -> list[Span]:
    """Return the spans from `zabka.journal.spans`. tests/journal compares that module with a brute-force
    computation.
    """
    spans = Spans()
    for entry in history:
        spans.apply(entry)
    return [*spans.take_closed(), *spans.lasting()]


def up_to(history: Sequence[Entry], to_us: int) -> list[Entry]:
    """Return the events up to the last one at or before `to_us`."""
    later = next((place for place, entry in enumerate(history) if entry.wall_us > to_us), len(history))
    return list(history[:later])


def texts(spans: Iterable[Span]) -> list[str]:
    return sorted(map(repr, spans))


def kept_rewind(tmp_path: Path, history: tuple[Entry, ...], checkpoints: Checkpoints) -> Rewind:
    kept = KeptRuns(tmp_path)
    keep(kept, kept_run("r00000001", 1, history), history)
    return Rewind(RunFile(kept.path("r00000001") / JOURNAL), checkpoints)


def test_run_spans_are_equal_for_every_checkpoint_size(tmp_path: Path) -> None:
    history = tuple(copies(played(), 3))
    for bytes_max in (1 << 20, 40_000, 1):
        rewind = kept_rewind(tmp_path / str(bytes_max), history, Checkpoints(bytes_max))
        for seq in (None, 2_500, 5_700):
            if seq is not None:
                asyncio.run(rewind.state(seq))
            assert texts(asyncio.run(rewind.spans()).spans) == texts(folded(history))


def test_span_starting_before_the_window_keeps_its_start(tmp_path: Path) -> None:
    history = tuple(copies(played(), 3))
    rewind = kept_rewind(tmp_path, history, Checkpoints())
    first, last = history[0].wall_us, max(entry.wall_us for entry in history)
    drawn = random.Random(4)
    for _ in range(30):
        from_us, to_us = sorted(drawn.randrange(first, last) for _ in "12")
        expected = [s for s in folded(up_to(history, to_us)) if s.to_us is None or s.to_us >= from_us]
        found = asyncio.run(rewind.spans(from_us, to_us))
        assert texts(found.spans) == texts(expected), (from_us, to_us)
        assert found.first_us == from_us
        assert found.last_us <= to_us


def test_live_spans_survive_deletion_of_the_oldest_events(tmp_path: Path) -> None:
    bounds = {"kept_bytes_max": 1 << 20, "file_bytes_max": 1 << 17}
    collector = Collector(tmp_path, **bounds)
    history = collect_history(collector, copies(played(), 5))
    oldest = collector.oldest_seq
    assert oldest > 1
    # The events before the oldest stored one were deleted, and with them the spans that had ended by then.
    gone_us = max(entry.wall_us for entry in history[: oldest - 1])

    def check(rewind: Rewind, from_us: int | None) -> None:
        found = texts(asyncio.run(rewind.spans(from_us)).spans)
        since_us = max(gone_us, from_us or 0)
        assert set(found) <= set(texts(folded(history)))
        assert [*found] == sorted(dict.fromkeys(found))
        assert set(texts(s for s in folded(history) if s.to_us is None or s.to_us > since_us)) <= set(found)

    check(collector.rewind, None)
    collector.close()
    again = Collector(tmp_path, **bounds)
    check(again.rewind, None)
    check(again.rewind, history[-2_500].wall_us)
    again.close()


def test_run_without_events_has_no_spans(tmp_path: Path) -> None:
    collector = Collector(tmp_path)
    assert asyncio.run(collector.rewind.spans()) == Lasted([], 0, 0)
    collector.close()


# ---- timeline lanes ------------------------------------------------------------------------------------------------


def span(lane: str, of: str, from_us: int, to_us: int | None, state: str) -> Span:
    return Span(lane, of, from_us, to_us, state, of, from_us)


def rows(found: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(s["from_us"], s["to_us"], s["state"], s.get("merged")) for s in found]


def test_timeline_lanes_are_ordered_numerically() -> None:
    names = ["faults", "isr:t-10", "isr:t-9", "process:peer-1", "controller", "belief:broker-2", "peer:1", "isr:2-1"]
    lasted = Lasted([span(name, "", 0, 1, "x") for name in names], 0, 1)

    found = [(lane["lane"], lane["kind"]) for lane in lanes(lasted, (), None)]
    assert [name for name, _ in found] == [
        "controller", "belief:broker-2", "isr:2-1", "isr:t-9", "isr:t-10", "peer:1", "process:peer-1", "faults"
    ]  # fmt: skip
    assert found[1][1] == "belief"
    assert [lane["lane"] for lane in lanes(lasted, ["isr", "peer:1"], None)] == [
        "isr:2-1",
        "isr:t-9",
        "isr:t-10",
        "peer:1",
    ]


def test_topic_with_an_unusual_name_has_a_timeline_lane() -> None:
    names = ["isr:" + "9" * 5_000 + "-0", "isr:t-0", "isr:\u0663-0"]
    found = lanes(Lasted([span(name, "", 0, 1, "x") for name in names], 0, 1), (), None)
    assert {lane["lane"] for lane in found} == set(names)


def test_merged_spans_of_one_bin_list_all_their_states() -> None:
    row = [
        span("isr:t-0", "1", 0, 40, "leader"), span("isr:t-0", "1", 40, 43, "in_sync"),
        span("isr:t-0", "1", 43, 48, "out"), span("isr:t-0", "1", 48, 49, "in_sync"),
        span("isr:t-0", "1", 49, 95, "leader"), span("isr:t-0", "1", 95, None, "gone"),
    ]  # fmt: skip
    other = [span("isr:t-0", "-1", 44, 45, "leaderless")]
    [lane] = lanes(Lasted([*row, *other], 0, 100), (), 10)

    assert rows(lane["spans"]) == [
        (0, 40, "leader", None),
        (40, 49, "out", {"in_sync": 2, "out": 1}),
        (44, 45, "leaderless", None),
        (49, 95, "leader", None),
        (95, None, "gone", None),
    ]
    [whole] = lanes(Lasted([*row, *other], 0, 100), (), None)
    assert len(whole["spans"]) == 7


def test_reading_cached_spans_yields_to_other_tasks(tmp_path: Path) -> None:
    history = tuple(copies(played(), 3))
    rewind = kept_rewind(tmp_path, history, Checkpoints())
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def ask_twice() -> None:
        nonlocal turns
        await rewind.spans()
        turns = 0
        beside = asyncio.create_task(other())
        await rewind.spans()
        beside.cancel()

    asyncio.run(ask_twice())
    assert turns >= len(history) // CHECKPOINT_EVERY


def test_spans_response_contains_the_computed_lanes_unchanged() -> None:
    spans = Spans()
    for entry in played():
        spans.apply(entry)
    lasted = Lasted([*spans.take_closed(), *spans.lasting()], played()[0].wall_us, played()[-1].wall_us)
    for selected, bins in (((), None), (("controller", "isr"), 10), (("nothing",), None)):
        answer = json.loads(encoded(lasted, selected, bins))
        assert answer == {
            "first_us": lasted.first_us,
            "last_us": lasted.last_us,
            "lanes": json.loads(msgspec.json.encode(lanes(lasted, selected, bins))),
        }
