"""`python -m zabka`: the command `zabka`."""

from zabka.cli.main import main

main()
