"""``python -m polyseme``."""

from polyseme.cli.main import main

main()
