"""A host's file system in memory: what processes read, what is on the platter, and what survives a power loss.

The production storage and log directories run on it unchanged, because `process_files` implements the port `Files` of
`ensemble/runtime`.  Builds on `draws`; `engine`, `checkers`, `cluster`, `faults` and tests import it.  Begin with
`volume`, which a process accesses through `process_files`.
"""
