"""HTTP infrastructure: error responses, checks of hosts and tokens, and static pages.

`problems` creates problem documents (RFC 9457), `security` checks requests, `page` and `docs_page` contain the
dashboard page and the API's reference. The routes and `app` import this package. To learn the code, read `security`
first.
"""
