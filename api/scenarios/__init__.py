"""Scenarios, lessons and campaigns over HTTP: their models, and the process that runs a scenario.

A scenario needs seconds of CPU time, so each run is a child process, which ends when the API ends. Runs are executed
one at a time, and the last thirty results are stored. `routes` and `runs` import this package. To learn the code, read
`api.scenarios.runs` first.
"""
