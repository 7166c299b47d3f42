"""What the API shows of the cluster: models of its answers, and how they are made of the ensemble and the fold.

`ensemble_view` reads the ensemble, `cluster` joins it with the folded journal, `models` are the answers.  Routes and
services import this package.  Begin with `models`.
"""
