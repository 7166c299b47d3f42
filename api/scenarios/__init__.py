"""Scenarios, lessons and campaigns over HTTP: their models, and the process that plays a scenario.

A scenario takes seconds of computing, so each run is a child process that ends with the API; one runs at a time, and
the last thirty results are kept.  Routes and runs import this package.  Begin with `runs`.
"""
