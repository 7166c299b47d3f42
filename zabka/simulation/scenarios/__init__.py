"""The outage library: scripts that show a known bug or hold what somebody fears, and what plays them.

In layers, lowest first: `step`, then steps (`core_steps` over cores; `world_steps` and `kafka_steps` over a world on a
`stage`), `scenario` (what a script is), the players, and the scripts by subject, which `library` lists.  `story` and
`report` tell people and programs what came of one.  Stands on `cores` and `world`; search, `zabka.simulation.run`,
testing and tools may import it.  Begin with `scenario`, then any script, such as `zab_broadcast`.
"""
