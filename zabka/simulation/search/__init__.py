"""Two searches: all orders of steps of the bare protocol within bounds, and tapes mutated by what earlier runs reached.

`explore` is the exhaustive search; `explore_steps` lists the possible next steps, and `transcript` describes them for
people.  `tape_search` is the other one: `runs` plays a tape, `reached` extracts what a run reached, `corpus` keeps and
selects tapes, `mutation` changes them, `shrinking` shortens a finding, and `tape_file` and `tape_folder` save results.
`protocol` and `files` draw the steps of the bare protocol.

Builds on `faults`, `seeds`, `steps`, `scenarios` and `run`; cli and tests import it.  Begin with `explore` or
`tape_search`.
"""
