"""A server's interfaces for operators: four-letter words, the admin server's commands, metrics, snapshots.

The package imports `config` and `net`, and reads the peer, its service and its storage; `process` opens its ports. To
learn the code, begin with `operator_view`, then `words` and `admin_commands`; both use `server_facts`.
"""
