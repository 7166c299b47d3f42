"""The HTTP service: cluster control, cluster state, the event stream, metrics, and the dashboard page.

One process serves the whole cluster. Its data comes from three sources: `collector` fetches the journals from the host
agents (`agents`) and numbers their events; `ensemble_view` reads the ensemble as an ordinary ZooKeeper client; `kafka`
sends requests to the brokers in Kafka's protocol. `views` combines these data, the `routes_*` modules respond to
requests with the result, and `web` contains the page. `agent_protocol` defines the messages between this process and a
host agent.

`compose`, `testing` and `cli` may import this package. The package imports `simulation` and all lower packages, but
neither `compose` nor `pipeline`: it accesses processes and tables only through HTTP and files. To learn the code, begin
with `app`, which creates the application, and `services`, which lists the services that routes use.
"""
