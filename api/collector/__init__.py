"""The collected journal: lines of all nodes fetched from the host agents, put in order, numbered and kept.

`collector` does it, `numbered` gives the numbers, `agents` asks the hosts, `joined_brokers` writes for brokers
without an agent.  Routes and runs import this package.  Begin with `collector`.
"""
