"""Rules: why a node made a decision, in one sentence and with its source.

A rule names the function of this project that makes the decision, the corresponding class of Kafka or ZooKeeper, and
its references: a KIP, a section of the Zab papers, an issue. `rule_of` finds the rule of an event from the event's type
and fields alone. Begin here. `rule` defines a rule, and the other modules contain the rules, each with the condition
(in the language of `zabka.journal.sentences`) that selects its events. Every package that may import the journal may
import this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from zabka.journal.events import Event
from zabka.journal.rules.broker import BROKER_RULES
from zabka.journal.rules.controller import CONTROLLER_RULES
from zabka.journal.rules.coordinators import COORDINATOR_RULES
from zabka.journal.rules.ensemble import ENSEMBLE_RULES
from zabka.journal.rules.rule import Rule as Rule
from zabka.journal.sentences import holds

RULES: Mapping[type[Event], tuple[tuple[str, Rule], ...]] = {
    **CONTROLLER_RULES, **BROKER_RULES, **COORDINATOR_RULES, **ENSEMBLE_RULES,
}  # fmt: skip
"""Rules by event type, each with a condition. The first rule whose condition is true applies."""


def rule_of(event: Event) -> Rule | None:
    """Return the rule that explains an event; None if the event is not a decision, or if there is no rule for it."""
    pairs = RULES.get(type(event), ())
    if not pairs:
        return None
    fields: dict[str, Any] = msgspec.to_builtins(event)
    return next((rule for condition, rule in pairs if holds(condition, fields)), None)
