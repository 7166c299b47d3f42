"""A server's configuration files: zoo.cfg and its dynamic part, limits, TLS, JAAS, all read once and checked.

It imports `auth`, `zab` and `txnlog` for the values that it creates. It imports no other package of `server`; all of
them may import it. Begin with `zoo_cfg`.
"""
