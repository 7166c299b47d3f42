"""Configuration: every key with its rules, what is kept under /config, and who may change it."""
