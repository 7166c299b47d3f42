"""A running ensemble that receives garbage. `make fuzz` runs this for longer."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.ports import attack_new_ensemble


def test_client_gets_replies_while_every_port_receives_garbage(tmp_path: Path) -> None:
    attack_new_ensemble(tmp_path, seconds=4, seed=1)
