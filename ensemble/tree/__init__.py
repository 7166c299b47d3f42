"""The replicated state (znodes, sessions, ephemerals, watches); converts client requests to transactions.

The package is pure, like ZAB. Its `service.Service` implements `zab.application.Application`, the interface that ZAB
calls. The package imports `zab`, `auth` and the layers below them; `txnlog` and `server` import it, and so may every
higher package. To learn the code, read `service` first, which lists the parts. `datatree` is the tree itself,
`proposer` contains the leader's checks of a request, and `create_modes` the kinds of znodes.
"""
