"""Two searches: exhaustive within bounds (bare protocol), and by mutation of recorded choice sequences.

`explore` is the exhaustive search; `explore_steps` lists the possible next steps, and `transcript` describes them for
people.  `choice_search` is the other search: `runs` plays a choice sequence, `reached` extracts what a run reached,
`corpus` keeps and selects choice sequences, `mutation` changes them, `shrinking` shortens a finding, and `choices_file`
and `choices_folder` save results. `protocol` and `files` draw the steps of the bare protocol.

Builds on `faults`, `seeds`, `steps`, `scenarios` and `run`; cli and tests import it.  Begin with `explore` or
`choice_search`.
"""
