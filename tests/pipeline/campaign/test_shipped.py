"""The reports in the repository are valid for this version: a new run of each campaign has the reported results."""

from __future__ import annotations

from pathlib import Path

import pytest

from zabka.pipeline.campaign.definition import read_campaign
from zabka.pipeline.campaign.play import Run, play
from zabka.pipeline.campaign.report import run_of_report

CAMPAIGNS = Path(__file__).resolve().parents[3] / "docs" / "campaigns"
SHIPPED = [pytest.param(file, id=file.stem) for file in sorted(CAMPAIGNS.glob("*.toml"))]


@pytest.mark.long
@pytest.mark.parametrize("file", SHIPPED)
def test_baseline_run_has_the_figures_of_the_committed_report(file: Path) -> None:
    """A new run with the first setting has the values that the report in the repository shows.

    If this fails after an intended change, run the campaign again and replace its report.
    """
    campaign = read_campaign(file)
    seed, figures = run_of_report(file.with_suffix(".html").read_text())
    played = play(Run(0, seed, campaign.scenario, campaign.arguments(campaign.points()[0])))
    assert seed == campaign.seed_numbers()[0]
    assert {name: played.figures[name] for name in figures} == pytest.approx(figures)
    assert figures.keys() == {name for name in (campaign.decide, *campaign.also) if played.figures[name] is not None}


@pytest.mark.parametrize("file", SHIPPED)
def test_committed_report_contains_its_campaign_file_and_origin(file: Path) -> None:
    """A report in the repository contains its campaign file, and the version, commit, date and seeds."""
    page = file.with_suffix(".html").read_text()
    lines = file.read_text().splitlines()
    assert all(line.replace('"', "&quot;") in page for line in lines)
    assert "zabka 0.1.0, commit " in page
    assert f"seeds {read_campaign(file).seeds}</p>" in page
