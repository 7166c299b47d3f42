"""A tap on the simulated network: every message that was sent, and when it arrived."""

from __future__ import annotations

from collections.abc import Iterator

from zabka.journal.messages import Content, Message, message_line


class MessageTap:
    """The messages sent in one world, in the order of sending."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, now_us: int, source: str, target: str, content: Content, answers: int | None = None) -> Message:
        """Record a message when it is sent; it has not arrived yet."""
        message = Message(len(self.messages) + 1, now_us, None, source, target, *content, answers=answers)
        self.messages.append(message)
        return message

    def lines(self) -> Iterator[bytes]:
        """Return the messages as lines of a file."""
        return map(message_line, self.messages)
