"""What `make setup` and `make lint` run on a bare machine: choosing a Python, installing packages, checking the page.

These are scripts for a machine on which nothing is installed yet, so they import nothing of this project.  Begin with
`setup.sh`.
"""
