"""`zabka why`: print the chain of causes of an event, back to the first cause."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zabka.cli.failure import fail
from zabka.cli.options import Data

if TYPE_CHECKING:
    from zabka.journal.events import Entry


def command(
    effect: Annotated[str, typer.Argument(help="A journal line such as broker-2#812, an event type, or a note's kind")],
    about: Annotated[
        str, typer.Option(envvar="ZABKA_ABOUT", help="Only events whose sentence contains these words")
    ] = "",
    last: Annotated[
        int, typer.Option(min=1, envvar="ZABKA_LAST", help="Number of events to explain, newest first")
    ] = 1,
    data: Data = Path(".zabka"),
    journal: Annotated[
        Path | None, typer.Option(envvar="ZABKA_JOURNAL", help="A journal file, such as `zabka replay` writes")
    ] = None,
) -> None:
    """Explain a decision: its inputs, its rule, and its causes, back to a fault, a request, a timer or a start."""
    from zabka.journal.causes import Causes
    from zabka.journal.controller_gaps import gap_ended_by, gap_text
    from zabka.journal.fold import fold
    from zabka.journal.sentence_file import read_sentences
    from zabka.testing.journal_report import story

    try:
        entries = _entries(data, journal)
    except OSError as reason:
        fail(reason)
    if not entries:
        fail(f"there is no journal in {journal or data}")
    sentences, causes = read_sentences(), Causes()
    for entry in entries:
        causes.see(entry)
    meant = [e for e in entries if _is_meant(e, effect) and _holds(sentences.sentence(e.node, e.event), about)]
    if not meant:
        fail(_no_such_event(effect, about, entries))
    controller_terms = fold(entries).controller_terms
    for entry in meant[-last:]:
        for line in story(causes.chain(entry), sentences):
            print(line)  # noqa: T201
        gap = gap_ended_by(controller_terms, entry.event)
        if gap is not None:
            print(gap_text(gap))  # noqa: T201


def _entries(data: Path, journal: Path | None) -> list[Entry]:
    from zabka.journal.reader import merge, read_directory, read_file

    if journal is not None:
        if not journal.is_file():
            raise OSError(f"{journal} is not a file")
        return list(read_file(journal))
    return merge(entry for found in sorted(data.glob("*/journal")) for entry in read_directory(found))


def _no_such_event(effect: str, about: str, entries: list[Entry]) -> str:
    """Return an error message that states why no event matches, and suggests other arguments."""
    from zabka.ensemble.close_names import did_you_mean
    from zabka.journal.events import BY_NAME, type_name

    node, hash_sign, _ = effect.partition("#")
    found = sorted({type_name(entry.event) for entry in entries})
    if hash_sign:
        numbers = [entry.node_seq for entry in entries if entry.node == node]
        if numbers:
            return f"no event is {effect}: the journal has {node}#{min(numbers)} to {node}#{max(numbers)}"
        nodes = sorted({entry.node for entry in entries})
        return f"no event is {effect}. The journal has the nodes {', '.join(nodes)}"
    if effect in found:
        return f"no event is {effect} with {about!r} in its sentence. Leave --about out to see other events of the type"
    if effect in BY_NAME:
        return f"no event is {effect}: none happened. The journal has {', '.join(found)}"
    return f"no event is {effect}{did_you_mean(effect, BY_NAME) or '.'} The journal has {', '.join(found)}"


def _is_meant(entry: Entry, effect: str) -> bool:
    from zabka.journal.events import ProgramNoted, type_name

    node, _, number = effect.partition("#")
    if number:
        return (entry.node, str(entry.node_seq)) == (node, number)
    return type_name(entry.event) == effect or (isinstance(entry.event, ProgramNoted) and entry.event.kind == effect)


def _holds(sentence: str, phrase: str) -> bool:
    """Return whether a sentence contains the phrase as whole words: `orders-1` is not in "orders-10: …"."""
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", sentence) is not None if phrase else True
