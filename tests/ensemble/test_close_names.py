"""For a misspelled name, a similar name is suggested, but only if it is the only similar one."""

from __future__ import annotations

import pytest

from zabka.compose.config_keys import _KAFKA, _ZOOKEEPER
from zabka.ensemble.close_names import close_name, did_you_mean

KEYS = ("tickTime", "initLimit", "admin.restore.enabled", "replica.lag.time.max.ms", "clientPort", "enforceQuota")


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("tickTme", "tickTime"),
        ("ticktime", "tickTime"),
        ("tickTiem", "tickTime"),
        ("initLimti", "initLimit"),
        ("replica.lag.time.ms", "replica.lag.time.max.ms"),
        ("replica.lagg.tme.max.ms", "replica.lag.time.max.ms"),
        ("admin.restor.enable", "admin.restore.enabled"),
    ],
)
def test_similar_name_is_suggested(typo: str, meant: str) -> None:
    assert close_name(typo, KEYS) == meant
    assert did_you_mean(typo, KEYS) == f"; did you mean {meant}?"


@pytest.mark.parametrize("name", ["digest.enabled", "flux", "clock", "port", "quota.enabled", "tick", "max.ms", "ini"])
def test_dissimilar_name_is_not_suggested(name: str) -> None:
    assert close_name(name, KEYS) is None
    assert did_you_mean(name, KEYS) == ""


def test_two_equally_similar_names_are_not_suggested() -> None:
    assert close_name("leader", ["header", "reader"]) is None
    assert close_name("heeder", ["header", "reader"]) == "header"


def test_name_with_other_digits_is_not_suggested() -> None:
    assert close_name("orders-3", ["orders-1"]) is None


def test_similar_key_with_another_meaning_is_not_suggested() -> None:
    """The ZooKeeper key `digest.enabled` does not lead to a suggestion.

    The most similar key of our servers enables another feature.
    """
    assert close_name("digest.enabled", [*_ZOOKEEPER, *_KAFKA]) is None
