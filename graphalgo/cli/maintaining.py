"""The command ``maintain``."""

from __future__ import annotations

from typing import Annotated

import typer

from graphalgo.cli.console import print_json
from graphalgo.cli.options import DsnOption, JsonOption
from graphalgo.cli.sources import required_dsn
from graphalgo.engine.errors import MissingSetting

_THERE = "select to_regprocedure('aiq.refresh_names(boolean)') is not null"
_SWEEP = "vacuum aiq.name_changes"
_REFRESH = "select * from aiq.refresh_names(%s)"


def maintain(
    dsn: DsnOption = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Build the index of names anew, without what is gone.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Refresh the index of names, so that similar ones are found fast; run it now and then.

    Needs the rights of a superuser or of aiq_worker. Nobody waits for it.
    """
    import psycopg
    from psycopg.rows import dict_row

    with psycopg.connect(required_dsn(dsn), row_factory=dict_row, autocommit=True) as connection:
        there = connection.execute(_THERE).fetchone()
        if there is None or not next(iter(there.values())):
            raise MissingSetting(
                "this database has no index of names, which needs PL/Python and graphalgo",
                "Run graphalgo check to see what is missing.",
            )
        done = connection.execute(_REFRESH, [rebuild]).fetchone()
        # What was folded in is still read over by each search until it is swept away: by
        # now where one may, else by the server itself within a minute or so.
        connection.execute(_SWEEP)
    assert done is not None
    if as_json:
        print_json(done)
    elif done["busy"]:
        print("The index of names is being refreshed by somebody else")
    else:
        what = "built anew from" if done["rebuilt"] else "refreshed with"
        segments = f"{done['segments']} segment{'' if done['segments'] == 1 else 's'}"
        print(
            f"The index of names is {what} {done['folded']:,} names:"
            f" {done['names']:,} entries in {segments}"
        )
