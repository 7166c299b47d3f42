"""Events of a test's own programs in a simulated world: what they note, and what they log."""

from __future__ import annotations

from zabka.journal.event import Event


class ProgramNoted(Event):
    """A program, or the test itself, noted this with `world.note`.

    `kind` is the user's name for the event, and `fields` its data as text. `caused_by` is the note that the program
    named as the cause, or "start", the start of the program.
    """

    kind: str
    fields: dict[str, str]
    caused_by: str = ""


class ProgramLogged(Event):
    """A program logged a message with Python's `logging`; `severity` is the name of its level there."""

    severity: str
    logger: str
    message: str
