"""The HTTP service: control, state, the event stream, metrics, and the page.

One process serves it for the whole cluster. Its data comes from three sources. `collector` fetches the journals from
the host agents (`agents`) and numbers their events. `ensemble_view` reads the ensemble as an ordinary client. `kafka`
sends requests to the brokers in Kafka's protocol. `views` combines them, the `routes_*` modules respond to requests
with the result, and `web` is the page. `agent_protocol` defines the messages between this process and a host agent.

`compose`, `testing` and `cli` may import this package. The package imports `simulation` and all lower packages, but
neither `compose` nor `pipeline`: it accesses processes and tables only through HTTP and files. Begin with `app`, which
creates the application, and `services`, which lists what routes work with.
"""
