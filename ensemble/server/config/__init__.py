"""A server's configuration files, read once and checked: zoo.cfg and its dynamic part, limits, TLS, JAAS.

The package imports `auth`, `zab` and `txnlog` for the values that it creates. It imports no other package of `server`;
all others may import it. To learn the code, read `zoo_cfg` first.
"""
