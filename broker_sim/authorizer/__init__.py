"""The authorizer: stored ACLs, decisions, and the check of every request (kafka.security.authorizer.AclAuthorizer).

The package imports `configs`; handlers and the broker import the package. Begin with `decisions` (the rules), then
`acl_store` (the znodes), `acl_authorizer` (both together) and `request_guard` (which request needs which permission).
"""
