"""Whether the index of names is to be searched: asked before numpy is imported."""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# With fewer names pg_trgm's index is as fast, and a backend that does not import numpy is
# there sooner.
FEW = 10_000
SEGMENTS = f"""
select
    s.id, s.token::text as token, s.entries, s.ctype,
    aiq.name_setting('aiq.name_index_from', {FEW}) as least
from aiq.name_segments as s
order by s.id
"""
# What one search of many has to read, others share.
MOST_SHARING = 10


def segments_that_serve(
    plpy: Any, shared: dict[str, Any], names: int
) -> Sequence[Mapping[str, Any]]:
    """Return the segments of the index; none where so many names are to be looked for elsewhere.

    Parameters
    ----------
    plpy : module
        The server's own module, as a PL/Python function body sees it.
    shared : dict
        The backend's global dictionary `GD`, where the plan is kept.
    names : int
        How many names are looked for at once.
    """
    plan = shared.get("graphalgo.name_segments")
    if plan is None:
        plan = shared["graphalgo.name_segments"] = plpy.prepare(SEGMENTS)
    segments: Sequence[Mapping[str, Any]] = plpy.execute(plan)
    if not segments:
        return ()
    entries = sum(row["entries"] for row in segments)
    sharing = min(max(names, 1), MOST_SHARING)
    return segments if entries * sharing >= segments[0]["least"] else ()
