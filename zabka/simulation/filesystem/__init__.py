"""A host's file system in memory: its contents for processes, on the platter, and after a power loss.

Imports `kernel` and the ports of `ensemble/runtime`, so that the production storage and log directories run on it
unchanged; higher packages may import it. Start reading at `volume`, which a process accesses through `process_files`;
`workers` runs the jobs of processes in virtual time.
"""
