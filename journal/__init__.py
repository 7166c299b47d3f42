"""The journal: one typed record of everything that happened, its folds and its invariants."""
