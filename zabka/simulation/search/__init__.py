"""Two searches for bugs: exhaustive within bounds (bare protocol), and by mutation of recorded choice sequences.

`explore` is the exhaustive search; `explore_steps` lists the possible next steps, and `transcript` describes them for
people.  `choice_search` is the other search: `runs` runs a choice sequence, `reached` extracts the features of a run,
`corpus` stores and selects choice sequences, `mutation` changes them, `shrinking` shortens a finding, and
`choices_file` and `choices_folder` save results. `protocol` and `files` run the bare protocol with random steps.

Builds on `faults`, `seeds`, `steps`, `scenarios` and `run`; cli and tests import it.  Begin with `explore` or
`choice_search`.
"""
