"""The journal: one typed record of everything that happened, and what can be told from it.

Every node writes its own file of events (`writer`); files are read, and several nodes' merged into one history, by
`reader`.  `events` is the schema; `fold` makes of a history the state of the cluster (`cluster_state`); `judges` says
what must hold of any history; `sentences` tells an event to people.  It is the lowest room: every other may import it,
and it imports none of ours.  All but `writer`, `reader` and `sentence_file` is pure.

Begin with `events`: an event is the only thing that rooms say to each other without calling each other.  A new event is
a class there, a sentence in `sentences.json`, and a line in the golden files of `tests/golden`; it needs a handler in
`fold`, and in its twin on the page, only where the state of the cluster changes with it.
"""
