"""Request faults of Kafka: the check of rules, the requests that they select, and the responses that they produce.

`rules` checks a rule (`zabka.ensemble.request_fault`) against the tables in `api_errors`. `subjects` compares rules
with requests, `answers` builds responses with errors, and `ready_sets` has the rules of well-known outages.
"""
