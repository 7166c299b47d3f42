"""A tap on the simulated network, which records every message with its sending and arrival time."""

from __future__ import annotations

from collections.abc import Iterator

from zabka.journal.messages import Content, Message, message_line


class MessageTap:
    """The messages sent in one world, in the order of sending."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, now_us: int, source: str, target: str, content: Content, answers: int | None = None) -> Message:
        """Record a message when it is sent, without an arrival time.

        `answers` is the id of the request that it answers.
        """
        message = Message(len(self.messages) + 1, now_us, None, source, target, *content, answers=answers)
        self.messages.append(message)
        return message

    def lines(self) -> Iterator[bytes]:
        """Return each message as a line for the message file."""
        return map(message_line, self.messages)
