"""Identities and their authentication: schemes, certificate names, SASL DIGEST-MD5, and JAAS files.

The package does no I/O, and does not depend on the tree or on ZAB. `schemes` defines identities; `policy` defines what
a server requires and what an identity is allowed to do. Every layer of `ensemble` above `txn` may import it. To learn
the code, read `schemes` first.
"""
