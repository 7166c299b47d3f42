"""Two searches: every order of the bare protocol's steps within bounds, and runs that are changed by what they reached.

`explore` is the exhaustive one; `explore_steps` says what can happen next, `transcript` tells it to people.
`tape_search` is the other: `runs` plays a tape, `reached` says what was new in it, `corpus` keeps and chooses,
`mutation` changes, `shrinking` makes a finding short, `tape_file` and `tape_folder` write it down; `protocol` draws the
steps of the bare protocol.  Stands on `cores`, `scenarios`, `seeds` and `run`; tools may import it, and tests.
"""
