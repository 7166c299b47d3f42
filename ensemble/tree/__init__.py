"""What is replicated: znodes, sessions, ephemerals, watches; and how client requests become transactions."""
