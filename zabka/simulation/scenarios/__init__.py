"""The outage library: scripts that reproduce a known bug or check a feared one, and their players.

Layers, lowest first: `step`, then the steps (`core_steps` over the bare protocol; `world_steps` and `kafka_steps` over a world on a
`stage`), `scenario` (the form of a script), the players, and the scripts by subject, which `library` lists. `story` and
`report` present the result of a play to people and to programs. Imports `steps` and `cluster`; search,
`zabka.simulation.run`, testing and tools may import it. Start reading at `scenario`, then any script, such as
`zab_broadcast`.
"""
