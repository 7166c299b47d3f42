"""Runs as files: one HTML file with the page and its runs, which needs no server.

`contents` collects the runs and the data that the page cannot compute itself; `document` adds the page. The route
`GET /runs/{id}/export` and the command `zabka export` use them.
"""
