"""The replicated state (znodes, sessions, ephemerals, watches), and conversion of client requests to transactions.

Pure, like ZAB, whose interface `zab.application.Application` it implements (`service.Service`). The package imports
`zab`, `auth` and the layers below them; `txnlog` and `server` import it, and so may every higher package. Begin with
`service`, which lists its parts; `datatree` is the tree itself, `proposer` the leader's checks of a request,
`create_modes` the kinds of znodes.
"""
