"""Identities of Kafka connections."""

from __future__ import annotations

from typing import NamedTuple


class KafkaPrincipal(NamedTuple):
    """Identity of a Kafka connection, as in Apache's KafkaPrincipal."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class NoPrincipal(Exception):
    """A client's certificate cannot be mapped to a principal."""


ANONYMOUS = KafkaPrincipal("User", "ANONYMOUS")
"""Principal of a connection that is not authenticated."""
