"""Misspelled commands and options: the error suggests a similar name if there is one."""

from __future__ import annotations

import re

import pytest

from zabka.cli.typer_verbs import Verbs


def refused(capsys: pytest.CaptureFixture[str], args: list[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        Verbs()(args)
    assert ended.value.code == 2
    return re.sub(r"\s+", " ", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["statsu"], "did you mean status?"),
        (["scenarios", "lsit"], "did you mean list?"),
        (["scenarios", "list", "--jsno"], "--json"),
    ],
)
def test_similar_command_or_option_is_suggested(capsys: pytest.CaptureFixture[str], args: list[str], hint: str) -> None:
    assert hint in refused(capsys, args)


@pytest.mark.parametrize("args", [["statistics"], ["scenarios", "listing"], ["status", "--database"]])
def test_dissimilar_command_or_option_is_not_suggested(capsys: pytest.CaptureFixture[str], args: list[str]) -> None:
    """A name that only shares some letters with `status`, `list` or `--data` does not lead to a suggestion."""
    text = refused(capsys, args)
    assert "No such" in text and "mean" not in text and "Possible" not in text
