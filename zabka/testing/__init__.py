"""The public fixtures: a cluster for tests, of real processes (`zabka_cluster`) or in virtual time (`zabka_world`).

`cluster` is the surface that both share, `live` and `simulated` are the two, `pytest_plugin` gives them to pytest.
Stands on compose, api and simulation; tests, bench and tools may import it, and projects that install zabka.  Begin
with `cluster`.
"""
