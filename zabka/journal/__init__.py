"""The journal: one typed record of all events, and the tools that evaluate it.

Every node writes its own file of events (`writer`). `reader` reads the files and merges the files of several nodes into
one history. `events` is the schema. `fold` computes the state of the cluster (`cluster_state`) from a history.
`checkers` contains the checkers for the invariants of any history. `sentences` describes an event in a sentence. This
is the lowest package: every other package may import it, and it imports none of them. All modules except `writer`,
`reader` and `sentence_file` are pure functions.

To learn the code, read `events` first: packages that do not call each other communicate only by events. A new event
type needs a class there, a sentence in `sentences.json`, and a line in the golden files of `tests/golden`. It needs a
handler in `fold`, and in the dashboard's copy of `fold`, only if it changes the state of the cluster.
"""
