"""All injected bugs by name, each with the texts that show it."""

from __future__ import annotations

from tests.simulation import (
    planted,
    planted_disks,
    planted_ensemble,
    planted_histories,
    planted_learning,
    planted_outages,
    planted_service,
    planted_transaction_outages,
    planted_transactions,
)
from tests.simulation.planting import Plant
from tests.simulation.scenarios.pairs import PAIRS

_BY_SEEDS: dict[str, Plant] = {
    **planted.PLANTED,
    **planted_ensemble.PLANTED,
    **planted_disks.PLANTED,
    **planted_transactions.PLANTED,
}
_BY_SCRIPTS = {
    **planted_learning.PLANTED,
    **planted_service.PLANTED,
    **planted_outages.PLANTED,
    **planted_histories.PLANTED,
    **planted_transaction_outages.PLANTED,
}

PLANTS: dict[str, Plant] = {
    **_BY_SEEDS,
    **{
        name: Plant(plant, tuple(pair.shows for pair in PAIRS if pair.plant == name))
        for name, plant in _BY_SCRIPTS.items()
    },
}
