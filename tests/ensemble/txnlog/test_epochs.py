"""The two epoch files at startup, in all states that they can have relative to each other and to the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from zabka.ensemble.txnlog.epochs import ACCEPTED, CURRENT, TEMPORARY_SUFFIX, check_epochs, read_epoch, write_epoch
from zabka.ensemble.txnlog.errors import DataDirectoryError

LAST = (3 << 32) + 7
"""Zxid of the last logged transaction, in epoch 3."""


@pytest.mark.parametrize(
    ("accepted", "current", "pending", "loaded"),
    [
        pytest.param("3", "3", None, (3, 3), id="as ever"),
        pytest.param("5", "4", None, (5, 4), id="epochs in which nothing was logged"),
        pytest.param("4", "3", None, (4, 3), id="a new epoch was accepted"),
        pytest.param("3", "2", None, (3, 2), id="a synchronisation's transactions without its epoch"),
        pytest.param("4", "2", None, (4, 2), id="the same, and a newer epoch was accepted"),
        pytest.param("3", "2", "3", (3, 3), id="written and not renamed"),
        pytest.param("4", "2", "4", (4, 4), id="written and not renamed, of a newer one"),
        pytest.param("3", "2", "2", (3, 2), id="what was not renamed is older than the history"),
        pytest.param("3", "2", "", (3, 2), id="what was not renamed is not whole"),
        pytest.param("4", "3", "4", (4, 3), id="what was not renamed is not needed"),
        pytest.param(None, None, None, (3, 3), id="neither file"),
        pytest.param(None, "3", None, (3, 3), id="no acceptedEpoch"),
        pytest.param(None, "4", None, (4, 4), id="no acceptedEpoch, and the other is newer than the log"),
        pytest.param("3", None, None, (3, 3), id="no currentEpoch"),
        pytest.param("4", None, None, (4, 3), id="no currentEpoch, and the other is newer than the log"),
        pytest.param("2", "2", None, None, id="both are older than the log"),
        pytest.param(None, "2", None, None, id="currentEpoch is older than the log, and nothing was accepted"),
        pytest.param("3", "4", None, None, id="what was not accepted is current"),
        pytest.param("2", None, None, None, id="less was accepted than the log holds"),
    ],
)
def test_epoch_files_are_read_repaired_or_rejected_at_startup(
    tmp_path: Path, accepted: str | None, current: str | None, pending: str | None, loaded: tuple[int, int] | None
) -> None:
    """The epoch files are accepted, repaired or rejected as in QuorumPeer.loadDataBase.

    After `write`, the files contain the epochs that `check_epochs` returned.
    """
    for name, text in ((ACCEPTED, accepted), (CURRENT, current), (CURRENT + TEMPORARY_SUFFIX, pending)):
        if text is not None:
            (tmp_path / name).write_text(text)
    if loaded is None:
        with pytest.raises(DataDirectoryError):
            check_epochs(tmp_path, LAST)
        return
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    epochs = check_epochs(tmp_path, LAST)
    assert (epochs.accepted, epochs.current) == loaded
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before
    epochs.write(tmp_path)
    assert (read_epoch(tmp_path, ACCEPTED), read_epoch(tmp_path, CURRENT)) == loaded


@pytest.mark.parametrize(
    ("text", "epoch"),
    [
        ("0", 0),
        ("7\n", 7),
        (" 12 ", 12),
        ("9" * 18, 10**18 - 1),
        ("1" + "0" * 18, None),
        ("", None),
        ("-1", None),
        ("1.0", None),
        ("0x10", None),
        ("\0\0", None),
    ],
)
def test_epoch_in_a_file_is_a_decimal_number_of_limited_length(tmp_path: Path, text: str, epoch: int | None) -> None:
    (tmp_path / CURRENT).write_bytes(text.encode())
    if epoch is None:
        with pytest.raises(DataDirectoryError, match="instead of an epoch"):
            read_epoch(tmp_path, CURRENT)
    else:
        assert read_epoch(tmp_path, CURRENT) == epoch


def test_written_epoch_can_be_read_and_leaves_no_other_file(tmp_path: Path) -> None:
    assert read_epoch(tmp_path, ACCEPTED) is None
    write_epoch(tmp_path, ACCEPTED, 11)
    assert read_epoch(tmp_path, ACCEPTED) == 11
    assert [path.name for path in tmp_path.iterdir()] == [ACCEPTED]
