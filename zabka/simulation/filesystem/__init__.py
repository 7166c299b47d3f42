"""A simulated file system of a host: what processes read, what is on the platter, and what survives a power loss.

Production code for storage and log directories uses it unchanged, because `process_files` implements the interface
`Files` of `ensemble/runtime`.  Builds on `draws`; `engine`, `checkers`, `cluster`, `faults` and tests import it.  Begin
with `volume`, which a process accesses through `process_files`.
"""
