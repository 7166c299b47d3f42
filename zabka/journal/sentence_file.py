"""Reads the file with the sentence templates of all events."""

from __future__ import annotations

from pathlib import Path

import msgspec

from zabka.journal.sentences import Sentences, Wording

SENTENCES = Path(__file__).with_name("sentences.json")


def read_sentences() -> Sentences:
    """Read the sentence templates for this version of the journal's schema."""
    return Sentences(msgspec.json.decode(SENTENCES.read_bytes(), type=dict[str, Wording]))
