"""Mutants: small wrong changes of the rooms' code, each of which some test or some seed should notice.

`python -m tests.mutation.run --sample 200 --seed 1` (or `make mutants`) says how many are noticed and lists those that
are not.  Begin with `mutants.py`, which says what is changed; `run.py` is the command.  Nothing imports this package
but its own tests.
"""
