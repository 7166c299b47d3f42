"""Exports runs as one HTML file that contains the page and the runs and needs no server.

`contents` collects the runs and the data that the page cannot compute itself; `document` adds the page. The route `GET
/runs/{id}/export` and the command `zabka export` use them.
"""
