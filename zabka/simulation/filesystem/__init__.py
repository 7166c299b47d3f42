"""A host's file system in memory: its contents for processes, on the platter, and after a power loss.

The production storage and log directories run on it unchanged.  Builds on `draws` and the ports of `ensemble/runtime`;
`engine` and the packages above it import it.  Begin with `volume`, which a process accesses through `process_files`.
"""
