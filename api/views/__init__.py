"""The API's view of the cluster: the response models, and how they are built from the ensemble and the journal.

`ensemble_view` reads the ensemble, `cluster` joins this reading with the folded journal, and `models` defines the
responses. Routes and services import this package. Begin with `models`.
"""
