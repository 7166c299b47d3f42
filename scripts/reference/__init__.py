"""The reference pages of `docs/reference`, made from the code that they describe.

`python -m scripts.reference` writes them; `tests/docs` holds the committed pages to what it would write.  Each page is
one module with a function `page`; `key_meanings` has the sentences that the code's tables do not hold.  Nothing but the
tests imports this package, which may import every room.  Begin with `pages`.
"""
