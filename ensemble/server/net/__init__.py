"""A server's ports: clients, elections, learners; their bytes, their TLS, and their admission checks.

It imports `config`; `operator` and `process` import it. The ports pass received messages to a listener, and send
messages that they are given; only the peer interprets them. Begin with `client_port`, `quorum_port` and
`election_port`; the `_wire` modules define their bytes.
"""
