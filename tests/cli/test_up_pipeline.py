"""What `zabka up --pipeline` says where it cannot start the stream: the cluster is up all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from zabka.cli import up


def test_without_the_extra_it_says_how_to_install_it_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(up, "is_installed", lambda extra: False)
    assert up._pipeline_of(tmp_path)() == (
        "pipeline  not started: the Spark jobs are not installed: pip install 'zabka[spark]'"
    )
    assert not (tmp_path / "pipeline.log").exists()


def test_without_java_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "Java 17" in up._pipeline_of(tmp_path)()


def test_where_its_log_cannot_be_written_it_says_so_and_the_cluster_stays_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(up, "is_installed", lambda extra: True)
    (tmp_path / "pipeline.log").mkdir()
    said = up._pipeline_of(tmp_path)()
    assert said.startswith("pipeline  not started: ") and said.endswith(f"Is a directory: '{tmp_path}/pipeline.log'")
