"""The collected journal: the lines of all nodes, fetched from the host agents, ordered, numbered and stored.

`collector` does this, `numbered` assigns the numbers, `agents` sends requests to the hosts, and `joined_brokers` writes
for brokers without an agent. Routes and runs import this package. Begin with `collector`.
"""
