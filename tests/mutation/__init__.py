"""Mutants: small wrong changes of the code. Some test or some seed should detect each of them.

`python -m tests.mutation.run --sample 200 --seed 1` (or `make mutants`) prints how many are detected, and lists the
others. Start with `mutants.py`, which defines the changes. `run.py` is the command. Only the tests of this package
import it.
"""
