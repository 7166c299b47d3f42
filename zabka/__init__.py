"""The doors of the installed package: what its command and pytest's plugin run first.

The rooms are top-level packages with everyday names.  A project of yours may have packages of the same names; then one
hides the other, and `zabka.shadowed` says so in a sentence.  Nothing imports this package; begin with `shadowed`.
"""
