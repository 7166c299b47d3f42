"""Writes a history as a log for ShiViz (https://bestchai.bitbucket.io/shiviz), which draws it by vector clocks.

The first line is the regular expression that ShiViz needs to parse the log. Each event of a node, and each message that
a node sends or receives, advances the node's vector clock. A received message also merges the sender's clock into the
receiver's. So only messages determine the order, not the hosts' wall clocks. Pings and fetches are omitted, because
they would hide all other messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from zabka.journal.events import Entry
from zabka.journal.messages import Message
from zabka.journal.sentences import Sentences

PARSER = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"
LEFT_OUT = frozenset({"ping", "fetch"})
"""Classes of messages that are not written."""


class _Happened(NamedTuple):
    at_us: int
    order: int
    """Rank of this event among events at the same time: a message is sent before it arrives."""
    host: str
    text: str
    sent: Message | None = None
    arrived: Message | None = None


def shiviz_log(
    entries: Sequence[Entry],
    messages: Sequence[Message],
    sentences: Sentences,
    is_progress: Callable[[Entry], bool],
) -> str:
    """Return a history as a log for ShiViz."""
    clocks: dict[str, dict[str, int]] = {}
    sent: dict[int, dict[str, int]] = {}
    lines = [PARSER, ""]
    for each in sorted(_happened(entries, messages, sentences, is_progress), key=lambda each: each[:2]):
        clock = clocks.setdefault(each.host, {})
        if each.arrived is not None:
            for host, ticks in sent[each.arrived.id].items():
                clock[host] = max(clock.get(host, 0), ticks)
        clock[each.host] = clock.get(each.host, 0) + 1
        if each.sent is not None:
            sent[each.sent.id] = dict(clock)
        lines += [f"{each.host} {json.dumps(clock)}", each.text]
    return "\n".join(lines) + "\n"


def _happened(
    entries: Sequence[Entry],
    messages: Sequence[Message],
    sentences: Sentences,
    is_progress: Callable[[Entry], bool],
) -> Iterator[_Happened]:
    for entry in entries:
        if not is_progress(entry):
            text = " ".join(sentences.sentence(entry.node, entry.event).split())
            yield _Happened(entry.wall_us, 1, entry.node, text)
    for message in messages:
        if message.group in LEFT_OUT:
            continue
        yield _Happened(message.sent_us, 0, message.source, f"send {message.kind} to {message.target}", sent=message)
        if message.arrived_us is not None:
            # The clocks of two hosts may differ. Never let a message arrive before it was sent.
            at_us = max(message.arrived_us, message.sent_us)
            yield _Happened(at_us, 2, message.target, f"receive {message.kind} from {message.source}", arrived=message)
