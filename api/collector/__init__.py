"""The collected journal: the events of all nodes, fetched from the host agents, ordered, numbered and stored.

`collector` does this, `numbered` assigns the event numbers, `agents` sends requests to the hosts, and `joined_brokers`
writes events on behalf of brokers without an agent. `routes` and `runs` import this package. Begin with `collector`.
"""
