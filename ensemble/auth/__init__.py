"""Who somebody is, and how that is proved: schemes, the names in certificates, SASL's DIGEST-MD5, JAAS files' contents.

Pure.  It knows nothing of the tree, nor of ZAB: `schemes` says what an identity is, `policy` what a server demands and
what an identity may.  Everything in `ensemble` above `txn` may import it.  Begin with `schemes`.
"""
