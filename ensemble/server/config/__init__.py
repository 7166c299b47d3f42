"""A server's configuration files, read once and checked: zoo.cfg and its dynamic part, limits, TLS, JAAS.

The package imports `auth`, `zab` and `txnlog` for the values that it creates. It imports no other package of
`server`; all others may import it. Begin with `zoo_cfg`.
"""
