"""How a campaign file is parsed, and which settings it defines."""

from __future__ import annotations

from pathlib import Path

import pytest

from zabka.pipeline.campaign.definition import BadCampaign, parse_campaign, read_campaign
from zabka.pipeline.campaign.design import Range, hypercube_points

SHIPPED = sorted((Path(__file__).resolve().parents[3] / "docs/campaigns").glob("*.toml"))
FILE = """
question = "Which?"
seeds = "1-12"
decide = "failover_ms"
also = ["false_expiries"]
baseline = {{ "zookeeper.session.timeout.ms" = 6000 }}
{more}
[settings]
"faults.kinds" = "crash_broker"
"drawn.topics" = false
[grid]
"zookeeper.session.timeout.ms" = [3000, 6000]
"unclean.leader.election.enable" = [false, true]
"""


def test_campaign_grid_has_every_combination_and_baseline_first() -> None:
    campaign = parse_campaign(FILE.format(more=""))
    points = [tuple(point.values()) for point in campaign.points()]
    assert points[0] == ("6000", "false")
    assert sorted(points) == [("3000", "false"), ("3000", "true"), ("6000", "false"), ("6000", "true")]
    assert campaign.arguments(campaign.points()[0]) == (
        "faults.kinds=crash_broker", "drawn.topics=false", "zookeeper.session.timeout.ms=6000",
        "unclean.leader.election.enable=false",
    )  # fmt: skip


def test_latin_hypercube_uses_every_stratum_of_a_key_once() -> None:
    points = hypercube_points({"a": Range(0, 1_000), "b": ["x", "y", "z"], "c": Range(10, 20)}, 10, seed=3)
    assert sorted(int(point["a"]) for point in points) == [50, 150, 250, 350, 450, 550, 650, 750, 850, 950]
    assert sorted(point["b"] for point in points) == ["x"] * 4 + ["y"] * 3 + ["z"] * 3
    assert points == hypercube_points({"a": Range(0, 1_000), "b": ["x", "y", "z"], "c": Range(10, 20)}, 10, seed=3)
    assert points != hypercube_points({"a": Range(0, 1_000), "b": ["x", "y", "z"], "c": Range(10, 20)}, 10, seed=4)


def test_campaign_file_can_define_a_latin_hypercube() -> None:
    text = FILE.format(more="").partition("[grid]")[0].replace("baseline", "# baseline") + (
        '[latin_hypercube]\npoints = 4\n[latin_hypercube.keys]\n"replica.lag.time.max.ms" = { from = 500, to = 4500 }\n'
    )
    points = parse_campaign(text).points()
    assert sorted(int(point["replica.lag.time.max.ms"]) for point in points) == [1_000, 2_000, 3_000, 4_000]


def test_latin_hypercube_with_duplicate_points_is_rejected() -> None:
    text = FILE.format(more="").partition("[grid]")[0].replace("baseline", "# baseline") + (
        '[latin_hypercube]\npoints = 6\n[latin_hypercube.keys]\n"replica.lag.time.max.ms" = { from = 500, to = 503 }\n'
    )
    with pytest.raises(BadCampaign, match="the 6 points of the hypercube are only 4 different settings"):
        parse_campaign(text)


def test_last_interim_analysis_includes_all_seeds() -> None:
    assert parse_campaign(FILE.format(more="") + "[stop]\nlooks = [4, 8]\n").look_sizes() == [4, 8, 12]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_packaged_campaign_is_valid(path: Path) -> None:
    assert read_campaign(path).question.endswith("?")


def test_package_contains_five_campaigns() -> None:
    assert len(SHIPPED) == 5


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("seeds = ", "seeds ="), None),
        (('"1-12"', '"12-1"'), "A-B is wanted"),
        (('"1-12"', '"few"'), "A-B is wanted"),
        (('"1-12"', '"1-²"'), "A-B is wanted"),
        (('"1-12"', '"1-99999999999999999999"'), "A-B is wanted"),
        (("[3000, 6000]", f"{list(range(3000, 3040))}\n" + "\n".join(f"k{n} = {list(range(40))}" for n in range(9))),
         "limits.runs is 2000"),
        (('"failover_ms"', '"happiness"'), "there is no figure 'happiness'; there are client_availability"),
        (("question", "quest"), "unknown field `quest`|required field `question`"),
        (("[grid]", "[grids]"), "unknown field `grids`"),
        (("[3000, 6000]", "[]"), "there is no value to choose from"),
        (("[3000, 6000]", "[3000, 6000, 3000]"), "a value stands there twice"),
        (("[3000, 6000]", "3000"), "Expected `array`"),
        (("[3000, 6000]", '["²", 6000]'), "a positive whole number is wanted"),
        (("[3000, 6000]", f'["{"9" * 5_000}", 6000]'), "a positive whole number is wanted"),
        (("[false, true]", '["maybe"]'), "unclean.leader.election.enable"),
        (("crash_broker", "sunspots"), "there is no 'sunspots' here"),
        (("= 6000 }", "= 7000 }"), "no point of the campaign has"),
        (("question = ", "question "), "no TOML"),
        (('"1-12"', '"1-1200"'), "4800 runs; limits.runs is 2000"),
        (("[settings]", '[stop]\nconfidence = 2.0\n[settings]'), "less than 1"),
        # The significance level is one in a million, divided by the three comparisons.
        (("[settings]", '[stop]\nconfidence = 0.999999\n[settings]'), "p-values of 3e-07, and none is"),
        (("[settings]", '[stop]\nlooks = [8, 4]\n[settings]'), "that rise"),
        (("[settings]", '[stop]\nlooks = [8, 30]\n[settings]'), "there are only 12 seeds"),
        (("[settings]", '[stop]\nequal_within = nan\n[settings]'), "no less than 0"),
        (("[settings]", '[stop]\nequal_within = inf\n[settings]'), "no less than 0"),
        (("[settings]", '[stop]\nequal_within = { stale_reads = 1 }\n[settings]'), "neither decide nor in also"),
        (("[settings]", '[limits]\nminutes = -1.0\n[settings]'), "limits.minutes = -1.0: a number"),
        (("[settings]", '[limits]\nminutes = nan\n[settings]'), "limits.minutes = nan: a number"),
        (("[settings]", '[latin_hypercube]\npoints = 2\nkeys = { a = [1] }\n[settings]'), "and not both"),
    ],
)  # fmt: skip
def test_invalid_campaign_is_rejected_with_the_reason(change: tuple[str, str], reason: str | None) -> None:
    text = FILE.format(more="").replace(*change)
    if reason is None:
        parse_campaign(text)
        return
    with pytest.raises(BadCampaign, match=reason):
        parse_campaign(text)


def test_missing_or_binary_campaign_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadCampaign, match="No such file"):
        read_campaign(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadCampaign, match="no UTF-8"):
        read_campaign(tmp_path / "bytes.toml")
