"""What is replicated: znodes, sessions, ephemerals, watches; and how client requests become transactions.

Pure, like ZAB, whose port `zab.application.Application` it implements (`service.Service`).  It imports `zab`, `auth`
and what is below these; `txnlog` and `server` import it, and so may every room above.  Begin with `service`, which
names its parts; `datatree` is the tree itself, `proposer` the leader's checks of a request, `create_modes` the kinds of
znodes.
"""
