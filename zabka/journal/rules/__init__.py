"""Which rule fired: for a decision in a journal, why it was taken so, in one sentence, and who says so.

A rule names the function of ours that decides, the class of Kafka's or ZooKeeper's that does, and what stands behind
it: a KIP, a section of the Zab papers, an issue.  `rule_of` finds the rule of an event by its type and by what the
event says of itself; nothing is worked out from other events.  Begin here; `rule` says what a rule is, and the other
modules hold the rules, each beside the condition (in the language of `zabka.journal.sentences`) under which it is an
event's. Whoever may import the journal may import this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from zabka.journal.events import Event
from zabka.journal.rules.broker import BROKER_RULES
from zabka.journal.rules.controller import CONTROLLER_RULES
from zabka.journal.rules.ensemble import ENSEMBLE_RULES
from zabka.journal.rules.rule import Rule as Rule
from zabka.journal.sentences import holds

RULES: Mapping[type[Event], tuple[tuple[str, Rule], ...]] = {**CONTROLLER_RULES, **BROKER_RULES, **ENSEMBLE_RULES}
"""By type of event: pairs of a condition and a rule.  The first whose condition holds is the event's."""


def rule_of(event: Event) -> Rule | None:
    """The rule that an event follows; None where it tells of no decision, or of one that has no rule."""
    pairs = RULES.get(type(event), ())
    if not pairs:
        return None
    fields: dict[str, Any] = msgspec.to_builtins(event)
    return next((rule for condition, rule in pairs if holds(condition, fields)), None)
