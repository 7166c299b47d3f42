"""Entry point of `python -m zabka`, which runs the command `zabka`."""

from zabka.cli.main import main

main()
