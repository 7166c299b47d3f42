"""Scripts of `make setup` and `make lint`: choose a Python, install packages, check the page's JavaScript.

They run on a machine on which nothing is installed yet, so they import nothing of this project. To learn the code, read
`setup.sh` first.
"""
