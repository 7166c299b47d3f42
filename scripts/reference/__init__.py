"""The reference pages of `docs/reference`, generated from the code that they describe.

`python -m scripts.reference` writes them; `tests/docs` compares the committed pages with its output.  Each page is one
module with a function `page`; `key_meanings` has descriptions that are not in the code.  Only the tests import this
package, which may import every package.  Begin with `pages`.
"""
