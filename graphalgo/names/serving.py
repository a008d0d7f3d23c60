"""Whether the index of names is to be searched: asked before numpy is imported."""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# With fewer names pg_trgm's index is as fast, and a backend that does not import numpy is
# there sooner.
FEW = 10_000
# All that a search asks before it reads lists, in one statement: each takes as long to run
# as some steps of the search. Without a segment nothing of it is worked out.
STATE = f"""
select
    s.id, s.token::text as token, s.entries, s.ctype, o.least, o.cache_mb, c.many, c.file,
    -- What may be long stands in the first row alone.
    case when row_number() over (order by s.id) = 1 then c.ids end as ids,
    case when row_number() over (order by s.id) = 1 then aiq.tokens_of_names($1) end as tokens
from aiq.name_segments as s
cross join (
    select
        aiq.name_setting('aiq.name_index_from', {FEW}) as least,
        aiq.name_setting('aiq.name_cache_mb', 64) as cache_mb
    offset 0
) as o
cross join (
    select
        string_agg(int8send(n.id), ''::bytea order by n.id) as ids,
        count(*) > aiq.most_name_changes() as many,
        pg_relation_filenode('aiq.name_changes') as file
    from (select id from aiq.name_changes limit aiq.most_name_changes() + 1) as n
) as c
order by s.id
"""
# What one search of many has to read, others share.
MOST_SHARING = 10


def segments_that_serve(
    plpy: Any, shared: dict[str, Any], names: Sequence[str]
) -> Sequence[Mapping[str, Any]]:
    """Return the segments of the index; none where these names are to be looked for elsewhere.

    Parameters
    ----------
    plpy : module
        The server's own module, as a PL/Python function body sees it.
    shared : dict
        The backend's global dictionary `GD`, where the plan is kept.
    names : sequence of str
        The names that are looked for.

    Returns
    -------
    sequence
        A row for each segment, and in the first what the search is to know besides: the
        trigrams of the names, the numbers of the names written since the last refresh,
        the file of their table, and how much a backend may keep.
    """
    plan = shared.get("graphalgo.name_segments")
    if plan is None:
        plan = shared["graphalgo.name_segments"] = plpy.prepare(STATE, ["text[]"])
    segments: Sequence[Mapping[str, Any]] = plpy.execute(plan, [names])
    if not segments:
        return ()
    entries = sum(row["entries"] for row in segments)
    sharing = min(max(len(names), 1), MOST_SHARING)
    first = segments[0]
    return segments if entries * sharing >= first["least"] and not first["many"] else ()
