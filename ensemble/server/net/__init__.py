"""A server's ports: clients, elections, learners; their bytes, their TLS, and who is let in.

It imports `config`; `operator` and `process` import it.  The ports tell a listener what has come, and send what they
are given; what it means is the peer's business.  Begin with `client_port`, `quorum_port` and `election_port`; the
`_wire` modules are their bytes.
"""
