"""Causes of all events of a run, in a form that compresses well.

For each event, one number is stored: the distance from the event to its direct cause, which is the second step of its
causal chain (`zabka.journal.causes`). Almost all causal chains can be restored from these numbers. The few others are
stored in full.
"""

from __future__ import annotations

from typing import Any

from zabka.api.exports.recorded import Recorded
from zabka.api.runs.why import chain_to_json, progress_types, rule_to_json
from zabka.journal.causes import Causes, Chain
from zabka.journal.cluster_state import ControllerTermView
from zabka.journal.controller_gaps import gap_ended_by, gap_milliseconds
from zabka.journal.events import Entry, type_name
from zabka.journal.fold import fold
from zabka.journal.rules import Rule, rule_of

CAUSE_IS_EARLIER = "The earlier causes are not in this file"
"""Text at the end of a causal chain whose earlier causes are outside the exported part."""


class RuleList:
    """The rules used in an export, without duplicates.

    A rule's number is its list index plus one; 0 means that the event has no rule.
    """

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self._numbers: dict[Rule, int] = {}

    def number(self, rule: Rule | None) -> int:
        """Return the number of a rule. Add the rule to the list if it is new."""
        if rule is None:
            return 0
        if rule not in self._numbers:
            self.found.append(rule_to_json(rule))
            self._numbers[rule] = len(self.found)
        return self._numbers[rule]


class Explained:
    """Computes the causes of the exported events of a run."""

    def __init__(self, run: Recorded) -> None:
        self.run = run
        self.entries = run.entries
        self._by_seq = {entry.seq: entry for entry in self.entries}
        self._causes = Causes()
        progress = progress_types()
        for entry in run.history:
            if type_name(entry.event) not in progress:
                self._causes.see(entry)
        self._terms: list[ControllerTermView] = fold(run.history).controller_terms

    def why(self, seq: int) -> list[dict[str, Any]]:
        """Return the causal chain of an exported event, back to its first cause, in the API's format."""
        effect = self._by_seq[seq]
        steps = chain_to_json(self._causes.chain(effect))
        steps[0]["controller_gap"] = self._gap(effect)
        return steps

    def _gap(self, effect: Entry) -> dict[str, float | None] | None:
        gap = gap_ended_by(self._terms, effect.event)
        return None if gap is None else gap_milliseconds(gap)

    def causes(self, rules: RuleList) -> dict[str, Any]:
        """Return the causes of all exported events, in the format `Causes` of `api/web/source/embedded.js`."""
        back: dict[int, int] = {}
        ends: dict[int, tuple[int, str, str]] = {}
        odd: list[tuple[int, list[int]]] = []
        gaps = [(entry.seq, gap) for entry in self.entries if (gap := self._gap(entry)) is not None]
        for entry in self.entries:
            chain = self._causes.chain(entry)
            inside, is_whole = self._inside(chain)
            back[entry.seq] = inside[0] - inside[1] if len(inside) > 1 else 0
            end = (chain.end.value, chain.says) if is_whole else ("unknown", CAUSE_IS_EARLIER)
            ends.setdefault(inside[-1], (inside[-1], *end))
            if len(inside) > 2:
                odd.append((entry.seq, inside))
        return {
            "back": [back[entry.seq] for entry in self.entries],
            "rules": [rules.number(rule_of(entry.event)) for entry in self.entries],
            "ends": list(ends.values()),
            "chains": [(seq, chain) for seq, chain in odd if _followed(seq, back) != chain],
            "gaps": gaps,
        }

    def _inside(self, chain: Chain) -> tuple[list[int], bool]:
        """Return the event numbers of a chain up to the last exported event, and whether the chain is complete."""
        found: list[int] = []
        for step in chain.steps:
            if step.seq not in self._by_seq:
                return found, False
            found.append(step.seq)
        return found, True


def _followed(seq: int, back: dict[int, int]) -> list[int]:
    found = [seq]
    while (distance := back[found[-1]]) and len(found) <= len(back):
        found.append(found[-1] - distance)
    return found
