"""HTTP infrastructure: problem documents, the checks of hosts and tokens, and static pages.

`problems` creates RFC 9457 responses, `security` checks requests, `page` and `docs_page` serve the dashboard and the
API's reference. The routes and `app` import this package. Begin with `security`.
"""
