"""A server's ports for clients, elections and learners: wire formats, TLS and limits on connections.

The package imports `config`; `operator` and `process` import it. The ports pass received messages to a listener and
send the messages passed to them; only the peer interprets messages. To learn the code, read `client_port`,
`quorum_port` and `election_port` first; the `_wire` modules define the wire formats.
"""
