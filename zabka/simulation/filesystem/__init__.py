"""A host's file system in memory: its contents for processes, on the platter, and after a power loss.

Imports `draws` and the ports of `ensemble/runtime`, so that the production storage and log directories run on it
unchanged; higher packages may import it.  Begin with `volume`, which a process accesses through `process_files`.
"""
