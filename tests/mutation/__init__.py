"""Mutants: small wrong changes of the packages' code that some test or some seed should detect.

`python -m tests.mutation.run --sample 200 --seed 1` (or `make mutants`) prints how many are detected, and lists the
others. Start with `mutants.py`, which defines the changes. `run.py` is the command. Only the package's own tests
import it.
"""
