"""The collected journal: events of all nodes, fetched from the host agents, ordered, numbered and stored.

`collector` is the main module, and the one to read first. `numbered` assigns the event numbers, `agents` sends requests
to the hosts, and `joined_brokers` writes events on behalf of brokers without an agent. `routes` and `runs` import this
package.
"""
