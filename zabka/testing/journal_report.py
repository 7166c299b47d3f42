"""A readable report of a journal: its last events as sentences, and the chain of causes of one important event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from zabka.journal.causes import Causes, Chain
from zabka.journal.events import Entry, Event, ReplicaProgressed, type_name
from zabka.journal.printable import printable
from zabka.journal.rules import Rule, rule_of
from zabka.journal.rules.source_lines import place_of
from zabka.journal.sentence_file import read_sentences
from zabka.journal.sentences import Sentences
from zabka.kafka.topic_names import INTERNAL_TOPICS

LAST_EVENTS = 20
_DECISIONS = ("records_lost", "leader_elected", "controller_elected", "isr_changed", "session_expired")
"""Event types that a report explains, the most important first.

The report takes the first of these types that occurs in the journal, and explains the newest event of this type.
"""


def report(entries: Sequence[Entry], since_us: int = -1) -> str:
    """Return the last events, and the causes of the newest event of the most important type.

    Only events whose `mono_us` is after `since_us` are listed or explained, and no events of internal topics. The
    causes can be earlier events and events of internal topics.
    """
    shown = [entry for entry in entries if entry.mono_us > since_us and not _is_internal(entry.event)]
    if not shown:
        return "the journal is empty" if not entries else "the journal has no event since this test began"
    sentences = read_sentences()
    lines = [f"the last {min(LAST_EVENTS, len(shown))} of {len(shown)} events:"]
    lines += [f"  {line(entry, sentences)}" for entry in shown[-LAST_EVENTS:]]
    newest = {type_name(entry.event): entry for entry in shown}
    decision = next((name for name in _DECISIONS if name in newest), None)
    if decision is not None:
        causes = Causes()
        for entry in entries:
            causes.see(entry)
        # There can be later events, but their types are less important.
        lines += [f"causes of the newest {decision}:"]
        lines += [f"  {step}" for step in story(causes.chain(newest[decision]), sentences)]
    return "\n".join(lines)


def _is_internal(event: Event) -> bool:
    """Return whether an event is only about Kafka's internal topics."""
    if isinstance(event, ReplicaProgressed):
        return all(topic in INTERNAL_TOPICS for topic, *_ in event.replicas)
    return getattr(event, "topic", None) in INTERNAL_TOPICS


def line(entry: Entry, sentences: Sentences) -> str:
    """Return a line of text for an event: its time, its number in its node's journal, and its sentence."""
    return f"{_time(entry)} {entry.node}#{entry.node_seq}: {printable(sentences.sentence(entry.node, entry.event))}"


def story(chain: Chain, sentences: Sentences) -> Iterator[str]:
    """Yield lines of text for a chain of causes, beginning with the effect.

    Each event has one line; for a decision, a second line states its rule.
    """
    for place, entry in enumerate(chain.steps):
        yield f"{'because ' if place else ''}{line(entry, sentences)}"
        rule = rule_of(entry.event)
        if rule is not None:
            yield from _ruled(rule)
    if chain.says:
        yield f"because {printable(chain.says)}"
    yield (f"first cause: {chain.end.value}" if chain.end.value != "unknown" else "earlier causes are not known")


def _ruled(rule: Rule) -> Iterator[str]:
    yield f"    rule: {rule.sentence}"
    theirs = ", ".join(link.name for link in (rule.theirs, *rule.references))
    yield f"    source: {place_of(rule.source)}; upstream: {theirs}"


def _time(entry: Entry) -> str:
    try:
        return datetime.fromtimestamp(entry.wall_us / 1e6, UTC).strftime("%H:%M:%S.%f")[:-3] + "Z"
    except (ValueError, OverflowError, OSError):
        return f"{entry.wall_us} us"
