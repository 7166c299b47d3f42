"""Two searches for bugs: an exhaustive one of the protocol alone within bounds, and one that mutates choice sequences.

`explore` is the exhaustive search; `explore_steps` lists the possible next steps, and `transcript` describes them for
people.  `choice_search` is the other search: `runs` runs a choice sequence, `reached` extracts the features of a run,
`corpus` stores and selects choice sequences, `mutation` changes them, `shrinking` shortens a finding, and
`choices_file` and `choices_folder` save results. `protocol` and `files` run the protocol alone (`BareEnsemble`) with
random steps.

Builds on `faults`, `seeds`, `steps`, `scenarios` and `run`; cli and tests import it.  Begin with `explore` or
`choice_search`.
"""
