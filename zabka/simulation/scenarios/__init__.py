"""The outage library: scripts that reproduce or check for a bug, their players, and the lessons.

Layers, lowest first: `step`, then the steps (`core_steps` and `file_steps` for the bare protocol; `world_steps` and
`kafka_steps` for a world on a `stage`), `scenario` (the form of a script), the players, and the scripts, one module per
subject, which `library` lists.  `story` and `report` present the result of a script to people and to programs.
`lessons` adds a question and its answers to thirteen scripts.

Builds on `cluster`, `checkers` and `steps`; `search`, `zabka.simulation.run`, api, cli and testing import it.  Begin
with `scenario`, then any script, such as `zab_broadcast`.
"""
