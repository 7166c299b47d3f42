"""Errors that `zabka campaign` prints if a file cannot be read or written."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from zabka.cli.campaign import app
from zabka.journal import events as e
from zabka.journal.writer import JournalWriter

SHIPPED = Path(__file__).resolve().parents[3] / "docs/campaigns/lag.toml"


def test_unwritable_output_is_reported_before_any_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = CliRunner().invoke(app, ["run", str(SHIPPED), "--out", str(tmp_path / "file" / "below")])
    assert answer.exit_code == 2
    assert "Not a directory" in answer.output


def test_too_few_seeds_are_reported_before_any_run(tmp_path: Path) -> None:
    (tmp_path / "few.toml").write_text(SHIPPED.read_text().replace('seeds = "1-40"', 'seeds = "1-6"'))
    (tmp_path / "file").touch()
    answer = CliRunner().invoke(app, ["run", str(tmp_path / "few.toml"), "--out", str(tmp_path / "file" / "below")])
    # Four comparisons share a level of 5 %. With 8 seeds, the smallest p-value, 2 / 2^8, is below a fourth of 5 %; with
    # 7 seeds it is not.
    assert "6 seeds cannot distinguish 5 settings, whatever their effect: at least 8 are needed" in answer.output


def test_unwritable_report_file_is_reported(tmp_path: Path) -> None:
    for node, role in (("peer-1", "peer"), ("broker-1", "broker")):
        writer = JournalWriter(tmp_path / node / "journal", node)
        writer.write(e.NodeStarted(role, 1, {}))
        writer.close()
    answer = CliRunner().invoke(app, ["from-journal", str(tmp_path), "--out", str(tmp_path / "none" / "of.toml")])
    assert answer.exit_code == 2
    assert "No such file or directory" in answer.output
