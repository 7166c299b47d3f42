"""The outage library: scripts that reproduce a known bug or check a feared one, their players, and the lessons.

Layers, lowest first: `step`, then the steps (`core_steps` and `file_steps` over the bare protocol; `world_steps` and
`kafka_steps` over a world on a `stage`), `scenario` (the form of a script), the players, and the scripts by subject,
which `library` lists.  `story` and `report` present the result of a play to people and to programs.  `lessons` adds a
question and its answers to thirteen scripts.

Builds on `cluster`, `checkers` and `steps`; `search`, `zabka.simulation.run`, api, cli and testing import it.  Begin
with `scenario`, then any script, such as `zab_broadcast`.
"""
