"""Code that host agents and the API share: the protocol between them, and the limits of both HTTP servers.

`protocol` contains the messages and the node actions, and `client` calls an agent. `bounded_http` and `quiet_server`
implement the HTTP server of both, and `problem_document` its errors. `token_file` and `loopback` control access. The
agent itself is `zabka.compose.agent`. `api` and `compose` import this package; it imports only `ensemble`. To learn the
code, read `protocol` first.
"""
