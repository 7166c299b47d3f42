"""The replicated state: znodes, sessions, ephemerals, watches; and the preparation of client requests as transactions.

Pure, like ZAB, whose port `zab.application.Application` it implements (`service.Service`). It imports `zab`, `auth` and
the layers below them; `txnlog` and `server` import it, and so may every higher package. Begin with `service`, which
lists its parts; `datatree` is the tree itself, `proposer` the leader's checks of a request, `create_modes` the kinds of
znodes.
"""
