"""``python -m graphalgo.cli``: the command line where its program is not on the path."""

from graphalgo.cli import main

main()
