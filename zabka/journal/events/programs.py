"""Events of a test's own programs in a simulated world: records made with `world.note`, and log messages."""

from __future__ import annotations

from zabka.journal.event import Event


class ProgramNoted(Event):
    """A record that a program, or the test itself, wrote with `world.note`.

    `kind` is the name that the program chose for the event, and `fields` its data as strings. `caused_by` refers to the
    record that the program named as the cause, or is "start" for the start of the program.
    """

    kind: str
    fields: dict[str, str]
    caused_by: str = ""


class ProgramLogged(Event):
    """A program logged a message with Python's `logging`. `severity` is the name of the log level."""

    severity: str
    logger: str
    message: str
