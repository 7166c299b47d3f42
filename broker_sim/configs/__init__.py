"""Configuration: every key with its rules, what is kept under /config, and who may change it.

All other folders of `broker_sim` may import it, and it imports none of them.  Begin with `config_def` (what a key is)
and `broker_keys` (all of them); `entity_configs` follows what changes while a broker runs.
"""
