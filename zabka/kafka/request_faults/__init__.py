"""Request faults of Kafka: validates rules, selects requests by rules, and builds the responses with faults.

`rules` validates a rule (`zabka.ensemble.request_fault`) with the tables in `api_errors`. `subjects` matches rules with
requests, `answers` builds responses with errors, and `ready_sets` has the rules of well-known outages.
"""
