"""Versions of the tables: a reader sees complete versions only, and only one job at a time writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from zabka.pipeline import versions


def make(out: Path, **tables: str) -> int:
    number, directory = versions.new_version(out)
    for name, text in tables.items():
        (directory / name).mkdir()
        (directory / name / "part-0.parquet").write_text(text)
    return number


def read(out: Path, table: str) -> str:
    return (out / table / "part-0.parquet").read_text()


def test_readers_see_the_old_version_until_the_new_is_written(tmp_path: Path) -> None:
    versions.publish(tmp_path, make(tmp_path, controller_terms="old", sessions="old"))
    number = make(tmp_path, controller_terms="new", sessions="new")
    assert (read(tmp_path, "controller_terms"), read(tmp_path, "sessions")) == ("old", "old")
    versions.publish(tmp_path, number)
    assert (read(tmp_path, "controller_terms"), read(tmp_path, "sessions")) == ("new", "new")
    assert (versions.directory_of(tmp_path, 1) / "controller_terms" / "part-0.parquet").read_text() == "old"


def test_files_of_a_killed_job_are_removed_by_the_next_job(tmp_path: Path) -> None:
    versions.publish(tmp_path, make(tmp_path, controller_terms="old"))
    make(tmp_path, controller_terms="half")
    assert make(tmp_path) == 2
    assert read(tmp_path, "controller_terms") == "old"
    assert not (versions.directory_of(tmp_path, 2) / "controller_terms").exists()


def test_unchanged_table_is_not_written_again(tmp_path: Path) -> None:
    versions.publish(tmp_path, make(tmp_path, controller_terms="same"))
    number = make(tmp_path)
    versions.keep(tmp_path, number, "controller_terms")
    versions.keep(tmp_path, number, "never-made")
    versions.publish(tmp_path, number)
    versions.vacuum(tmp_path, 0)
    assert versions.numbers(tmp_path) == [2]
    assert read(tmp_path, "controller_terms") == "same"


def test_tables_of_an_older_zabka_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "controller_terms").mkdir()
    (tmp_path / "controller_terms" / "part-0.parquet").write_text("of old")
    versions.publish(tmp_path, make(tmp_path, controller_terms="new"))
    assert read(tmp_path, "controller_terms") == "new"


def test_directory_that_is_not_a_table_is_not_replaced(tmp_path: Path) -> None:
    versions.publish(tmp_path, make(tmp_path, controller_terms="old"))
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "notes.txt").write_text("mine")
    number = make(tmp_path, controller_terms="new", sessions="new")
    with pytest.raises(versions.NoTable, match=r"sessions is no table.*another --out"):
        versions.publish(tmp_path, number)
    assert (tmp_path / "sessions" / "notes.txt").read_text() == "mine"
    assert read(tmp_path, "controller_terms") == "old"


def test_second_job_with_the_same_output_directory_is_rejected(tmp_path: Path) -> None:
    with (
        versions.locked(tmp_path),
        pytest.raises(versions.InUse, match="another job writes"),
        versions.locked(tmp_path),
    ):
        pass


def test_recently_replaced_table_versions_are_kept(tmp_path: Path) -> None:
    for text in ("a", "b"):
        versions.publish(tmp_path, make(tmp_path, controller_terms=text))
    assert versions.vacuum(tmp_path, 3600) == []
    assert versions.vacuum(tmp_path, 0) == [1]


def test_former_table_name_links_to_the_current_version(tmp_path: Path) -> None:
    """The former name of a table is a link to the current version.

    This holds even in the lake of an older zabka, whose link pointed to a table with the former name.
    """
    versions.publish(tmp_path, make(tmp_path, sessions="1"))
    (tmp_path / "controller_reigns").symlink_to("_current/controller_reigns")
    versions.publish(tmp_path, make(tmp_path, controller_terms="old"))
    assert read(tmp_path, "controller_reigns") == "old"
    versions.publish(tmp_path, make(tmp_path, controller_terms="new"))
    assert (read(tmp_path, "controller_reigns"), read(tmp_path, "controller_terms")) == ("new", "new")
    assert not (versions.directory_of(tmp_path, 3) / "controller_reigns").exists()
