"""Events of a test's own programs in a simulated world: their notes and their log messages."""

from __future__ import annotations

from zabka.journal.event import Event


class ProgramNoted(Event):
    """A record that a program, or the test itself, made with `world.note`.

    `kind` is the user's name for the event, and `fields` its data as strings. `caused_by` is the note that the program
    named as the cause, or "start" for the start of the program.
    """

    kind: str
    fields: dict[str, str]
    caused_by: str = ""


class ProgramLogged(Event):
    """A program logged a message with Python's `logging`; `severity` is the name of its level there."""

    severity: str
    logger: str
    message: str
