"""HTTP without a subject: problem documents, the gate for hosts and tokens, and the pages that are served.

`problems` makes RFC 9457 answers, `security` is the gate, `page` and `docs_page` serve the
dashboard and the API's reference.  The routes and `app` import this package.  Begin with `security`.
"""
