"""What a server's files say: zoo.cfg and its dynamic part, limits, TLS, JAAS, all read once and checked.

It imports `auth`, `zab` and `txnlog` for the values it makes, and none of the other packages of `server`, all of which
may import it.  Begin with `zoo_cfg`.
"""
