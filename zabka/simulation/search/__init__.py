"""Two searches for bugs: an exhaustive search, and a search that mutates choice sequences.

`explore` is the exhaustive search: it runs only the protocol, within bounds. `explore_steps` lists the possible next
steps, and `transcript` describes them for people. `choice_search` is the other search: `runs` runs a choice sequence,
`reached` extracts the features of a run, `corpus` stores and selects choice sequences, `mutation` changes them,
`shrinking` shortens a finding, and `choices_file` and `choices_folder` save results. `protocol` and `files` run only
the protocol (`BareEnsemble`) with random steps.

The package uses `faults`, `seeds`, `steps`, `scenarios` and `run`; cli and tests import it. To learn the code, read
`explore` or `choice_search` first.
"""
