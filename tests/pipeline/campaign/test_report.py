"""The result and the report of a campaign claim only what the measured values show."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from importlib import metadata
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from tests.pipeline.campaign.test_engine import NOTHING
from zabka.pipeline.campaign.answer import answer
from zabka.pipeline.campaign.charts import _names, format_number, number_axis
from zabka.pipeline.campaign.definition import parse_campaign
from zabka.pipeline.campaign.engine import Ended
from zabka.pipeline.campaign.failovers import ELECTED, PARTITION, Failover
from zabka.pipeline.campaign.play import Played
from zabka.pipeline.campaign.provenance import Provenance, provenance
from zabka.pipeline.campaign.report import report, run_of_report
from zabka.pipeline.campaign.results import Results, results, write_tables
from zabka.pipeline.campaign.statistics import Estimate
from zabka.pipeline.campaign.stopping import Verdict, rivals

TEXT = """
question = "Which <timeout>?"
seeds = "1-12"
decide = "failover_ms"
also = ["false_expiries"]
[grid]
"zookeeper.session.timeout.ms" = [6000, 2000]
"""
MADE = Provenance("0.1.0", "commit 0123456789ab", "2026-11-29")


def found(shift_ms: float, expiries: float, *, problems: list[str] | None = None, text: str = TEXT) -> Results:
    campaign = parse_campaign(text)
    runs = {}
    for point, settings in enumerate(campaign.points()):
        for seed in campaign.seed_numbers():
            figures = {
                "failover_ms": 100.0 * seed + 5_000 + shift_ms * point,
                "false_expiries": expiries * point + seed % 2,
            }
            runs[point, seed] = Played(
                point, seed, "chaos", settings, f"zabka replay --seed {seed}",
                problems or [] if (point, seed) == (1, 3) else [], figures, NOTHING, 1, 1, 0.1,
            )  # fmt: skip
    return results(campaign, runs, Ended(list(campaign.seed_numbers()), 1, 1, "every seed was played"))


def test_difference_is_reported_with_both_means_and_added_cost() -> None:
    decision, cost, evidence = answer(found(-4_000, 2.0))
    # The means are those of the values 100 x (1..12) + 5,000, and of the same values minus 4,000.
    assert "zookeeper.session.timeout.ms=2000 with 1,650 ms" in decision
    assert "against zookeeper.session.timeout.ms=6000 with 5,650 ms" in decision
    assert "sessions that expired though the broker lived 2.5 against 0.5 a run" in cost
    assert "24 runs, 2 settings on the same 12 seeds each, and every invariant held" in evidence


def test_absence_of_a_difference_is_reported_as_undecided() -> None:
    decision = answer(found(0, 0))[0]
    assert decision.startswith("Not enough seeds to tell a difference in failover of a partition, mean")
    assert decision.endswith("the smallest p is that of 2000, 0 (0 to 0), p = 1.0000.")


def test_difference_below_the_given_margin_is_not_reported() -> None:
    # The 40 differences are alternately +2 and -2. A t-test of them would detect a difference of 0.95 or more.
    text = TEXT.replace('"1-12"', '"1-40"') + "[stop]\nequal_within = { failover_ms = 0.5, false_expiries = 1 }"
    seen = found(0, 0, text=text)
    for run in seen.runs:
        run.figures["failover_ms"] = 5_000.0 + run.point * (2.0 if run.seed % 2 else -2.0)
    runs = {(run.point, run.seed): run for run in seen.runs}
    assert answer(results(seen.campaign, runs, seen.ended))[0].startswith("Not enough seeds to tell")
    wide = parse_campaign(text.replace("= 0.5", "= 1.5"))
    assert answer(results(wide, runs, seen.ended))[0].startswith("All settings are as good as equal")
    # The mean difference is half a unit. With this spread, equality within 1.1 could have been shown, but the interval
    # extends beyond 1.1.
    for run in seen.runs:
        run.figures["failover_ms"] = (run.figures["failover_ms"] or 0.0) + 0.5 * run.point
    near = parse_campaign(text.replace("= 0.5", "= 1.1"))
    assert answer(results(near, runs, seen.ended))[0].startswith("No difference seen in failover of a partition")


def test_undecided_cost_is_not_reported_as_no_difference() -> None:
    seen = found(-4_000, 0)
    for run in seen.runs:
        run.figures["false_expiries"] = float(run.point and run.seed in (3, 5, 8))
    runs = {(run.point, run.seed): run for run in seen.runs}
    # Three of twelve seeds differ, all in the same direction, so the p-value is 2 / 2^3.
    again = results(seen.campaign, runs, seen.ended)
    assert "sessions that expired though the broker lived: not enough seeds to tell (+0.25" in answer(again)[1]
    assert "p = 0.2500)" in answer(again)[1]
    row = re.search(
        r"<td>2000</td><td>\+0.25 \([^<]*\)</td><td>0.2500</td><td>12</td><td>([^<]*)</td>", report(again, TEXT, MADE)
    )
    assert row is not None and row[1] == "not enough seeds to tell"


def test_too_few_seeds_are_not_reported_as_no_difference() -> None:
    # With five seeds in the same direction, the p-value is 2 / 2^5, which is above 0.05.
    five = TEXT.replace('"1-12"', '"1-5"')
    assert answer(found(-4_000, 2.0, text=five))[0].endswith(
        "(no interval), p = 0.0625; 5 seeds with this figure cannot show any difference, at least 6 are needed."
    )
    six = TEXT.replace('"1-12"', '"1-6"')
    assert "best is zookeeper.session.timeout.ms=2000" in answer(found(-4_000, 2.0, text=six))[0]


def test_metric_with_few_values_states_the_number_of_values() -> None:
    name = "controller_failover_ms"
    seen = found(-4_000, 2.0, text=TEXT.replace('also = ["', f'also = ["{name}", "'))
    seen.estimates[name][1] = Estimate(1, 23_854.0, None, None)
    page = report(seen, TEXT, MADE)
    assert "<td>23,854<br><span>1 seed<br>0 failovers</span></td>" in page
    assert page.count("A mark without an interval rests on one seed.") == 1


def test_metric_equal_in_all_runs_is_stated_without_a_chart() -> None:
    # A fault that affects 22 % of all seeds affects none of twelve seeds with probability 1 in 20: 0.78^12 =
    # 0.05.
    seen = found(-4_000, 0)
    for run in seen.runs:
        run.figures["false_expiries"] = 0.0
    zeros = results(seen.campaign, {(run.point, run.seed): run for run in seen.runs}, seen.ended)
    page = report(zeros, TEXT, MADE)
    part = page.partition("<h2>Sessions that expired though the broker lived</h2>")[2].partition("<h2>")[0]
    assert part.strip() == (
        "<p>0 a run in each of 24 runs, so there is nothing to draw. "
        "What occurs up to 22.1 % of all seeds need not have shown in 12 of them.</p>"
    )
    assert "<h2>Failover of a partition, mean</h2><figure>" in page


def test_undecided_comparison_is_reported_as_too_few_seeds() -> None:
    three = TEXT.replace("[6000, 2000]", "[6000, 6001, 6002, 2000]")
    seen = found(0, 0, text=three)
    for (point, seed), run in zip([(run.point, run.seed) for run in seen.runs], seen.runs, strict=True):
        run.figures["failover_ms"] = 5_000.0 + 100 * seed - (4_000 if point == 3 else 0)
    again = results(seen.campaign, {(run.point, run.seed): run for run in seen.runs}, seen.ended)
    assert answer(again)[0].endswith("; there are not enough seeds to tell 6001 and 6002 from 6000.")


def test_tiny_p_value_is_not_printed_as_zero() -> None:
    # With 20 differences in the same direction, two of 2^20 sign patterns are as extreme: p = 0.000002. With 12
    # differences, p = 2 / 2^12.
    assert "<td>&lt; 0.0001</td>" in report(found(-4_000, 2.0, text=TEXT.replace("1-12", "1-20")), TEXT, MADE)
    assert "<td>0.0005</td>" in report(found(-4_000, 2.0), TEXT, MADE)


def test_best_setting_is_listed_with_indistinguishable_settings() -> None:
    # The settings 2000 and 2001 are both 4,000 ms better than 6000, and differ by about 5 ms from each other, in
    # varying directions. Setting 4000 is 2,000 ms better than 6000.
    many = TEXT.replace("[6000, 2000]", "[6000, 2000, 2001, 4000]")
    seen = found(0, 0, text=many)
    gains = {0: 0.0, 1: 4_000.0, 2: 4_000.0, 3: 2_000.0}
    for run in seen.runs:
        wobble = (35.0 if run.seed % 2 else -25.0) if run.point == 2 else 0.0
        run.figures["failover_ms"] = 5_000.0 + 100 * run.seed - gains[run.point] + wobble
    again = results(seen.campaign, {(run.point, run.seed): run for run in seen.runs}, seen.ended)
    assert "best is zookeeper.session.timeout.ms=2000 with" in answer(again)[0]
    assert answer(again)[0].endswith("; 2001 may be as good as 2000.")


def test_significance_level_counts_all_pairs_of_settings() -> None:
    # With ten differences in the same direction, p = 2 / 2^10 = 0.00195. This is below the level for 10 pairs (0.005),
    # but above the level for 36 pairs (0.0014).
    def points(count: int) -> dict[int, dict[int, float]]:
        return {point: {seed: float(point == 1) for seed in range(10)} for point in range(count)}

    assert rivals(points(5), 1, confidence=0.95, looks=1) == []
    assert rivals(points(5), 1, confidence=0.95, looks=3) == [2, 3, 4], "one of 30 tests: 0.0017"
    assert rivals(points(9), 1, confidence=0.95, looks=1) == [2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("crowd", [[(300.0, 150.0)] * 6, [(200.0 + 9 * n, 150.0 + n) for n in range(8)]])
def test_scatter_labels_do_not_overlap(crowd: list[tuple[float, float]]) -> None:
    names = _names(["12 / 3"] * len(crowd), crowd)
    for number, name in enumerate(names):
        assert all(abs(name.base - other.base) >= 13 or abs(name.left - other.left) >= name.width
                   for other in names[:number]), names  # fmt: skip
        # Letters reach about 10 units above their baseline.
        assert not any(name.left < x < name.left + name.width and name.base - 10 < y < name.base for x, y in crowd)


def test_single_setting_is_reported_without_comparison() -> None:
    campaign = parse_campaign(TEXT.replace("[6000, 2000]", "[6000]"))
    runs = {
        (0, seed): Played(0, seed, "chaos", {}, "", [], {"failover_ms": 5_000.0}, NOTHING, 1, 1, 0.1)
        for seed in campaign.seed_numbers()
    }
    one = results(campaign, runs, Ended(list(campaign.seed_numbers()), 1, 1, "every seed was played"))
    decision, cost, _ = answer(one)
    assert decision == (
        "One setting was played, zookeeper.session.timeout.ms=6000: failover of a partition, mean "
        "5,000 ms (in all 12 seeds)."
    )
    assert cost.startswith("There is nothing to compare it with")
    assert "verdict" not in report(one, TEXT, MADE)


def test_report_contains_its_version_commit_date_and_seeds() -> None:
    seen = found(-4_000, 2.0)
    page = report(seen, TEXT, MADE)
    assert "zabka 0.1.0, commit 0123456789ab, 2026-11-29; seeds 1-12<" in page
    early = results(
        seen.campaign, {(run.point, run.seed): run for run in seen.runs}, Ended(list(range(1, 8)), 1, 2, "clear")
    )
    assert "seeds 1-7 of 1-12<" in report(early, TEXT, MADE)


def test_report_made_outside_git_contains_the_code_digest(tmp_path: Path) -> None:
    made = provenance(tmp_path)
    assert re.fullmatch(r"code [0-9a-f]{12}", made.code) and re.fullmatch(r"\d{4}-\d\d-\d\d", made.date)
    assert made.version == metadata.version("zabka")


def test_report_in_a_git_checkout_names_its_commit(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(tmp_path), *who, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-q", "-m", "one")
    commit = git("rev-parse", "--short=12", "HEAD").strip()
    assert provenance(tmp_path).code == f"commit {commit}"
    (tmp_path / "file").write_text("2")
    assert provenance(tmp_path).code == f"commit {commit}, changed since"


def test_report_means_use_the_seeds_measured_in_both_settings() -> None:
    seen = found(-4_000, 2.0)
    failover = Failover(PARTITION, "orders-0", "broker-1", "crash", 0, total_ms=5.0, ended_by=ELECTED)
    runs = {}
    for run in seen.runs:
        # Setting 0 has no failover with seeds 1 to 4. Setting 1 has two failovers with each seed.
        count = 2 * run.point or int(run.seed > 4)
        figures = run.figures | ({} if count else {"failover_ms": None})
        runs[run.point, run.seed] = replace(
            run, figures=figures, measures=replace(run.measures, failovers=[failover] * count)
        )
    again = results(seen.campaign, runs, seen.ended)
    # The means are those of 100 x (5 .. 12) + 5,000, and of the same values minus 4,000.
    assert [each.mean for each in again.estimates["failover_ms"]] == [5_850.0, 1_850.0]
    assert [again.failovers("failover_ms", point) for point in (0, 1)] == [8, 16]
    assert "8 seeds<br>16 failovers" in report(again, TEXT, MADE)
    assert [each.seeds for each in again.estimates["false_expiries"]] == [12, 12]


@pytest.mark.parametrize(
    ("values", "parts"),
    [("[2000, 4000, 6000]", ("polyline",)), ("[2000, 4000, 9000]", ("rect",)), ("[6000, 2000]", ("polyline",))],
)
def test_values_at_unequal_distances_are_drawn_as_bars(values: str, parts: tuple[str]) -> None:
    page = report(found(500, 0, text=TEXT.replace("[6000, 2000]", values)), TEXT, MADE)
    drawing = page.partition("<svg")[2].partition("</svg>")[0]
    assert tuple(part for part in ("polyline", "rect") if f"<{part}" in drawing) == parts


def test_chart_has_a_dot_for_each_seed() -> None:
    page = report(found(-4_000, 0), TEXT, MADE)
    drawing = page.partition("<svg")[2].partition("</svg>")[0]
    assert len(re.findall(r'<circle class="seed s1" ', drawing)) == 24


def test_cost_among_several_settings_needs_a_smaller_p_value() -> None:
    text = TEXT.replace("[6000, 2000]", "[6000, 2000, 4000]")
    seen = found(0, 0, text=text)
    for run in seen.runs:
        run.figures["false_expiries"] = float(run.point == 1 and run.seed <= 6)
    again = results(seen.campaign, {(run.point, run.seed): run for run in seen.runs}, seen.ended)
    # With six differences in the same direction, p = 2 / 2^6 = 0.031. This is below 0.05, but above 0.05 / 2 settings.
    assert again.costs["false_expiries"][0].verdict is Verdict.DIFFERENT
    assert answer(again)[1].startswith("Not enough seeds to tell a difference in anything else")
    seventh = next(run for run in seen.runs if (run.point, run.seed) == (1, 7))
    seventh.figures["false_expiries"] = 1.0
    again = results(seen.campaign, {(run.point, run.seed): run for run in seen.runs}, seen.ended)
    assert answer(again)[1].startswith(
        "In what else was measured, on the same seeds: with zookeeper.session.timeout.ms="
    )


def test_unchanged_metric_is_not_reported_as_a_cost() -> None:
    assert answer(found(-4_000, 0))[1].endswith(
        "sessions that expired though the broker lived: no difference on any of 12 seeds, which are too few for a rare "
        "one (0 (0 to 0), p = 1.0000)."
    )


def test_violated_invariant_is_reported_with_its_replay_command() -> None:
    page = report(found(-4_000, 0, problems=["records: lost <b>"]), TEXT, MADE)
    assert "<code>zabka replay --seed 3</code>" in page and "records: lost &lt;b&gt;" in page
    assert "1 of them broke an invariant" in page


class _Addresses(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [
            value or "" for name, value in attrs if name in ("src", "href", "style", "onload", "onclick")
        ]


def test_report_has_no_script_or_url_and_escapes_the_question() -> None:
    page = report(found(-4_000, 2.0), TEXT, MADE)
    parser = _Addresses()
    parser.feed(page)
    assert parser.addresses == []
    assert not {"script", "img", "link", "iframe", "timeout"} & set(parser.tags)
    assert "http" not in page and "url(" not in page and "@import" not in page
    assert "Which &lt;timeout&gt;?" in page


def test_mark_in_a_chart_is_drawn_at_its_value() -> None:
    page = report(found(-4_000, 2.0), TEXT, MADE)
    ticks = {
        text: float(at) - 4
        for at, text in re.findall(
            r'class="tick" x="\d+" y="([\d.]+)" text-anchor="end">([\d,]+)<', page.split("</svg>")[0]
        )
    }
    marks = dict(re.findall(r"<title>(\d+): [\d,]+ .*?cy=\"([\d.]+)\"", page.split("</svg>")[0]))
    per_ms = (ticks["0"] - ticks["6,000"]) / 6_000
    assert float(marks["6000"]) == pytest.approx(ticks["0"] - 5_650 * per_ms, abs=0.2)
    assert float(marks["2000"]) == pytest.approx(ticks["0"] - 1_650 * per_ms, abs=0.2)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (1.5, "1.5"), (0.123, "0.12"), (99.94, "99.9"), (12_345.6, "12,346"), (100.0, "100"),
        # A partition was unavailable for 9 ms of 30 s, and one record was lost in a thousand runs.
        (99.97, "99.97"), (99.9996, "99.9996"), (0.001, "0.001"), (-0.004, "-0.004"), (-1e-13, "0"), (100.04, "100"),
    ],
)  # fmt: skip
def test_number_is_printed_with_only_the_digits_it_needs(value: float, text: str) -> None:
    assert format_number(value) == text


def test_chart_axis_contains_its_values_and_has_round_ticks() -> None:
    axis = number_axis("ms", [13.0, 87.0], from_zero=True)
    assert axis.low == 0 and axis.high >= 87
    assert [text for _, text in axis.ticks] == ["0", "20", "40", "60", "80", "100"]
    assert number_axis("%", [5.0, 5.0]).low < 5 < number_axis("%", [5.0, 5.0]).high


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([99.93, 99.99], ["99.92", "99.94", "99.96", "99.98", "100"]),
        ([1_000.2, 1_000.9], ["1,000.2", "1,000.4", "1,000.6", "1,000.8", "1,001"]),
        ([0.001, 0.004], ["0.001", "0.002", "0.003", "0.004"]),
        ([1.0, 12.0], ["0", "2.5", "5", "7.5", "10", "12.5"]),
    ],
)
def test_tick_labels_of_an_axis_are_distinct(values: list[float], texts: list[str]) -> None:
    assert [text for _, text in number_axis("%", values).ticks] == texts


def test_tables_contain_every_run_metric_and_violation(tmp_path: Path) -> None:
    rows = write_tables(found(-4_000, 2.0, problems=["broken"]), tmp_path)
    assert rows["runs"] == 24 and rows["violations"] == 1
    estimates = {(row["point"], row["figure"]): row for row in pq.read_table(tmp_path / "estimates").to_pylist()}
    assert estimates[0, "failover_ms"]["mean"] == 5_650 and estimates[1, "failover_ms"]["mean"] == 1_650
    assert estimates[0, "lost_records"]["seeds"] == 0
    (violation,) = pq.read_table(tmp_path / "violations").to_pylist()
    assert (violation["seed"], violation["command"], violation["problems"]) == (3, "zabka replay --seed 3", ["broken"])
    runs = pq.read_table(tmp_path / "runs").to_pylist()
    assert dict(runs[0]["figures"]) == {"failover_ms": 5_100.0, "false_expiries": 1.0}


def test_report_replays_the_first_run_of_the_baseline() -> None:
    page = report(found(-4_000, 2.0), TEXT, MADE)
    assert "zabka replay --seed 1" in page
    assert run_of_report(page) == (1, {"failover_ms": 5_100.0, "false_expiries": 1.0})
    with pytest.raises(ValueError, match="made by an older version"):
        run_of_report("<p>a report</p>")
