"""The shell around a peer: sockets, files, timers and the process (asyncio, uvloop)."""
