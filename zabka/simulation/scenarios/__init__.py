"""The outage library: scripts that reproduce a bug or show that it is fixed, the code that runs them, and the lessons.

Layers, lowest first: `step`, then the steps (`core_steps` and `file_steps` for the bare protocol; `world_steps` and
`kafka_steps` for a world on a `stage`), `scenario` (the data of a script), the modules that run scripts (`core_player`
and others), and the scripts, one module per subject, which `library` lists.  `story` and `report` present the result of
a script to people and to programs. `lessons` adds a question and its answers to thirteen scripts.

Builds on `cluster`, `checkers` and `steps`; `search`, `zabka.simulation.run`, api, cli and testing import it.  Begin
with `scenario`, then any script, such as `zab_broadcast`.
"""
