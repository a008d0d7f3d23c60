"""The command line: ``graphalgo``."""

from __future__ import annotations


def main() -> None:
    """Run the command that the program's arguments name, and exit with its code.

    Exit codes: 0 for an answer, also for a join that does not resolve; 1 for a
    check that fails, or a demonstration whose answers differ; 2 for a refusal or
    an error, which is told on the standard error stream.
    """
    from graphalgo.cli.application import run

    run()
