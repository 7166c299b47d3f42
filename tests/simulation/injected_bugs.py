"""All injected bugs, keyed by name. A problem in a run with the bug must contain one of the bug's strings."""

from __future__ import annotations

from tests.simulation import (
    injected,
    injected_disks,
    injected_ensemble,
    injected_group_outages,
    injected_histories,
    injected_learning,
    injected_outages,
    injected_service,
    injected_transaction_outages,
    injected_transactions,
)
from tests.simulation.injecting import InjectedBug
from tests.simulation.scenarios.pairs import PAIRS

_BY_SEEDS: dict[str, InjectedBug] = {
    **injected.INJECTED,
    **injected_ensemble.INJECTED,
    **injected_disks.INJECTED,
    **injected_transactions.INJECTED,
}
_BY_SCRIPTS = {
    **injected_learning.INJECTED,
    **injected_service.INJECTED,
    **injected_outages.INJECTED,
    **injected_histories.INJECTED,
    **injected_transaction_outages.INJECTED,
    **injected_group_outages.INJECTED,
}

BUGS: dict[str, InjectedBug] = {
    **_BY_SEEDS,
    **{
        name: InjectedBug(injected_bug, tuple(pair.shows for pair in PAIRS if pair.injected_bug == name))
        for name, injected_bug in _BY_SCRIPTS.items()
    },
}
