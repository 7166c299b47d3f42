"""A server's interfaces for operators: four-letter words, the admin server's commands, metrics, snapshots.

It imports `config` and `net`, and reads the peer, its service and its storage; `process` opens it. Begin with
`operator_view`, then `words` and `admin_commands`; `server_facts` is shared by both.
"""
