"""Identities and their authentication: schemes, names in certificates, SASL DIGEST-MD5, contents of JAAS files.

Pure. The package does not depend on the tree or on ZAB. `schemes` defines identities; `policy` defines what a server
requires and what an identity is allowed to do. Every layer of `ensemble` above `txn` may import it. Begin with
`schemes`.
"""
