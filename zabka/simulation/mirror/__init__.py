"""Mirrored worlds: simulated clusters that are built to have a live cluster's state.

`live_state` is the state as the API reads it, and decides which part of it a mirrored world has. `mirrored_world`
builds the world. `zabka what-if --on` kills a node of the mirrored world many times, with other random numbers each
time.
"""
