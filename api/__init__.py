"""The HTTP service: control, state, the event stream, metrics, and the page."""
