"""A campaign from its runs to its result.

It executes no run twice, even after a kill, and stops once the result is clear.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.house.test_layout import MAY_IMPORT
from zabka.pipeline.campaign import play
from zabka.pipeline.campaign.definition import Campaign, parse_campaign
from zabka.pipeline.campaign.engine import Keep, NotPlayed, Progress, run_campaign
from zabka.pipeline.campaign.ledger import CODE, MEASURES, PACKAGES, RUNS, NotThisCampaign, opened
from zabka.pipeline.campaign.measures import Measures
from zabka.pipeline.campaign.partition_times import Window
from zabka.pipeline.campaign.play import Played, Run

TEXT = """
question = "Which?"
seeds = "1-12"
decide = "failover_ms"
[settings]
"faults.kinds" = "crash_broker"
[grid]
"zookeeper.session.timeout.ms" = [2000, 4000]
[stop]
looks = [6, 9]
"""
NOTHING = Measures(Window(0, 1), [], [], 0, {}, 0, 0, 0, 0, None, None, None)


class Players:
    """Fake executor whose runs end at once.

    The failover time is the session timeout plus a little more for each seed.
    """

    def __init__(self, *, killed_after: int = 10**9, makes_difference: bool = True) -> None:
        self.played: list[tuple[int, int]] = []
        self._killed_after = killed_after
        self._makes_difference = makes_difference

    def __call__(self, runs: Sequence[Run], keep: Keep) -> None:
        for run in runs:
            if len(self.played) == self._killed_after:
                raise KeyboardInterrupt
            self.played.append((run.point, run.seed))
            timeout_ms = float(run.settings[-1].partition("=")[2]) if self._makes_difference else 0.0
            keep(
                msgspec.json.encode(
                    Played(
                        run.point, run.seed, run.scenario, {}, run.command, [],
                        {"failover_ms": timeout_ms + 10 * run.seed}, NOTHING, 1, 1, 0.1,
                    )
                )
            )  # fmt: skip


@pytest.fixture
def campaign() -> Campaign:
    return parse_campaign(TEXT)


def test_campaign_ends_at_the_first_clear_interim_analysis(campaign: Campaign, tmp_path: Path) -> None:
    players = Players()
    with opened(tmp_path, TEXT) as ledger:
        ended = run_campaign(campaign, ledger, players)
    # With 6 seeds, the smallest p-value is 2/64, which is above 5 % divided by the 3 interim analyses. With 9 seeds, it
    # is 2/512.
    assert (ended.look, ended.looks, ended.reason) == (2, 3, "the answer was clear")
    assert len(players.played) == len(set(players.played)) == 18


def test_campaign_without_a_difference_runs_every_seed(campaign: Campaign, tmp_path: Path) -> None:
    players = Players(makes_difference=False)
    with opened(tmp_path, TEXT) as ledger:
        ended = run_campaign(campaign, ledger, players)
    assert (ended.reason, len(players.played)) == ("every seed was played", 24)


@pytest.mark.parametrize("sizes", ["", "equal_within = { silence_ms = 1.0 }"])
def test_campaign_continues_while_a_cost_metric_needs_more_seeds(sizes: str, tmp_path: Path) -> None:
    # 9 seeds suffice to compare the failover times. They do not suffice for `silence_ms`, because Players returns no
    # value for it.
    text = TEXT.replace("[settings]", 'also = ["silence_ms"]\n[settings]') + sizes
    with opened(tmp_path, text) as ledger:
        ended = run_campaign(parse_campaign(text), ledger, Players())
    assert (len(ended.seeds), ended.reason) == (12, "every seed was played")


def test_campaign_ends_when_every_cost_metric_has_a_verdict(tmp_path: Path) -> None:
    def players(runs: Sequence[Run], keep: Keep) -> None:
        for run in runs:
            figures: dict[str, float | None] = {
                "failover_ms": 100.0 * run.point + run.seed,
                # With 40 seeds and a spread of 2, a difference of 1.0 would have been detected in 80 % of all cases.
                "silence_ms": run.seed + run.point * (2.0 if run.seed % 2 else -2.0),
            }
            keep(
                msgspec.json.encode(
                    Played(run.point, run.seed, "chaos", {}, run.command, [], figures, NOTHING, 1, 1, 0.1)
                )
            )

    def seeds_used(size: float) -> int:
        text = TEXT.replace("[settings]", 'also = ["silence_ms"]\n[settings]').replace("1-12", "1-80")
        text = text.replace("[6, 9]", "[10, 60]") + f"equal_within = {{ silence_ms = {size} }}"
        with opened(tmp_path / f"{size}", text) as ledger:
            return len(run_campaign(parse_campaign(text), ledger, players).seeds)

    assert seeds_used(1.5) == 60
    assert seeds_used(0.1) == 80


@pytest.mark.parametrize("killed_after", [0, 1, 7, 17])
def test_run_in_the_ledger_is_not_repeated(campaign: Campaign, tmp_path: Path, killed_after: int) -> None:
    first, second = Players(killed_after=killed_after), Players()
    with pytest.raises(KeyboardInterrupt), opened(tmp_path, TEXT) as ledger:
        run_campaign(campaign, ledger, first)
    with opened(tmp_path, TEXT) as ledger:
        run_campaign(campaign, ledger, second)
    assert len(first.played) == killed_after
    assert not set(first.played) & set(second.played)
    assert len(first.played) + len(second.played) == 18


def test_run_with_an_incomplete_ledger_line_is_repeated(campaign: Campaign, tmp_path: Path) -> None:
    with opened(tmp_path, TEXT) as ledger:
        run_campaign(campaign, ledger, Players())
    whole = (tmp_path / RUNS).read_bytes()
    (tmp_path / RUNS).write_bytes(whole[:-20])
    again = Players()
    with opened(tmp_path, TEXT) as ledger:
        run_campaign(campaign, ledger, again)
    assert len(again.played) == 1
    assert (tmp_path / RUNS).read_bytes() == whole


def test_row_that_a_worker_returns_twice_is_stored_once(campaign: Campaign, tmp_path: Path) -> None:
    def twice(runs: Sequence[Run], keep: Keep) -> None:
        Players()(runs, keep)
        Players()(runs, keep)

    reports: list[Progress] = []
    with opened(tmp_path, TEXT) as ledger:
        run_campaign(campaign, ledger, twice, reports.append)
    assert len((tmp_path / RUNS).read_bytes().splitlines()) == 18
    assert [progress.done for progress in reports] == list(range(19))


def test_missing_runs_are_reported_as_not_run(campaign: Campaign, tmp_path: Path) -> None:
    def forgetful(runs: Sequence[Run], keep: Keep) -> None:
        Players()(runs[:-2], keep)

    with opened(tmp_path, TEXT) as ledger, pytest.raises(NotPlayed, match=r"2 of 12 runs .*--seed 6"):
        run_campaign(campaign, ledger, forgetful)


def test_ledger_of_another_campaign_is_rejected(campaign: Campaign, tmp_path: Path) -> None:
    with opened(tmp_path, TEXT):
        pass
    with pytest.raises(NotThisCampaign, match="holds the runs of another campaign"), opened(tmp_path, TEXT + "\n"):
        pass


def test_ledger_of_another_zabka_version_is_rejected(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, TEXT) as ledger:
        run_campaign(campaign, ledger, Players())
    monkeypatch.setattr("zabka.pipeline.campaign.ledger.code_digest", lambda: "another")
    with pytest.raises(NotThisCampaign, match="another version of zabka played"), opened(tmp_path, TEXT):
        pass
    (tmp_path / CODE).unlink()
    with pytest.raises(NotThisCampaign, match="another version of zabka played"), opened(tmp_path, TEXT):
        pass


def test_code_digest_covers_every_module_that_computes_a_measure() -> None:
    here = Path(play.__file__).parent
    found, todo = set(), ["play"]
    while todo:
        name = todo.pop()
        found.add(name)
        imported = re.findall(
            r"^from zabka\.pipeline\.campaign\.(\w+) import", (here / f"{name}.py").read_text(), re.MULTILINE
        )
        todo += [each for each in imported if each not in found]
    assert sorted(found) == sorted(MEASURES)
    assert set(PACKAGES) == MAY_IMPORT["pipeline"]


def test_second_process_for_the_same_campaign_is_rejected(campaign: Campaign, tmp_path: Path) -> None:
    with opened(tmp_path, TEXT), pytest.raises(NotThisCampaign, match="another process"), opened(tmp_path, TEXT):
        pass


def test_invalid_line_in_the_ledger_is_reported(tmp_path: Path) -> None:
    with opened(tmp_path, TEXT):
        pass
    (tmp_path / RUNS).write_bytes(b'{"point":1}\n')
    with pytest.raises(NotThisCampaign, match=r"runs.jsonl:1 is not a run"), opened(tmp_path, TEXT):
        pass
