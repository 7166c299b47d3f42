"""A host's file system in memory: what processes read, what the platter holds, and what the loss of power leaves of it.

Stands on `kernel` and on the ports of `ensemble/runtime`, so that the real storage and the real log directories run on
it unchanged; rooms above may import it.  Begin with `volume`, which a process sees through `process_files`; `workers`
runs their jobs in virtual time.
"""
