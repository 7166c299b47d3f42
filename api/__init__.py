"""The HTTP service: control, state, the event stream, metrics, and the page.

One process serves it for the whole cluster.  What it knows comes from three places: the journals, which `collector`
gathers from the host agents (`agents`) and gives one numbering; the ensemble, which `ensemble_view` reads as any client
would; and the brokers, asked in Kafka's protocol (`kafka`).  `views` puts them together, the `routes_*` modules answer
requests from that, and `web` is the page.  `agent_protocol` is what it and a host agent say to each other.

`compose`, `testing` and `cli` may import it; it imports `simulation` and everything below, but neither `compose` nor
`pipeline`: it reaches processes and tables over HTTP and files alone.  Begin with `app`, where everything is put
together, and `services`, which lists what routes work with.
"""
