"""Configuration: every key with its rules, the overrides under /config, and the requests that alter them.

All other packages of `broker_sim` may import this package, and it imports none of them. To learn the code, read
`config_def` (the definition of a key) and `broker_keys` (all keys) first. `entity_configs` applies changes while a
broker runs.
"""
