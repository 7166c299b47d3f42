"""Exhaustive search over the bare protocol: every order of steps within bounds, and the shortest way to what breaks.

Stands on `cores` and on the steps and players of `scenarios`; a counter-example is written as a scenario.  tools may
import it, and tests.  Begin with `explore`; `explore_steps` says what can happen next, `transcript` tells it to people.
"""
