"""Names that are hard to compare, and what pg_trgm says of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import psycopg

THRESHOLDS = (0.3, 0.45, 0.5, 0.6, 2 / 3, 0.75, 0.9, 1.0)

# What pg_trgm itself says, of a superuser's table: no index, no policy.
PG_TRGM = """
select u.number, k.node_id, k.key, similarity(k.key, u.name)
from unnest(%s::text[]) with ordinality as u (name, number)
join aiq.node_keys as k
    on k.is_name and k.retired_at is null and similarity(k.key, u.name) >= %s::real
"""
OURS = "select name_number, node_id, key, similarity from aiq.similar_keys(%s::text[], %s::real)"


def hard_names() -> list[str]:
    """Names by kind: hot trigrams only, short, long, accents, CJK, emoji, the same sets."""
    hot = ["global", "trading", "limited", "company", "holdings", "group"]
    names = [f"{a} {b} {c}" for a in hot for b in hot for c in hot]
    names += [f"{a} {b}" for a in hot for b in hot]
    names += [*list("abcdefghijklmnopqrstuvwxyz0123456789"), "ab", "abc", "abcd", "a b", "a b c"]
    names += [("long name of many words " * 9)[:length] for length in range(190, 204)]
    names += ["".join(f"{chr(97 + i % 26)}{i} " for i in range(n)) for n in (60, 80, 120, 300)]
    names += ["café noir", "cafe noir", "café nöir", "straße", "strasse", "ıstanbul", "istanbul"]
    names += ["東京海上", "東京海運", "東京 海上 火災", "上海東京", "北京大学", "北京", "大学 北京"]
    names += ["🚢 marine", "🚢", "⚓ marine", "½", "²", "c", "c++", "c#", "नमस्ते दुनिया", "नमस्ते"]
    names += ["aaa", "aaaa", "aaaaa", "aaaaaa", "abab", "ababab", "abababab", "a a a", "aa aa"]
    names += ["limited global", "global, limited", "global-limited", "limited limited global"]
    return list(dict.fromkeys(" ".join(name.split()) for name in names))


def random_names(count: int, seed: int) -> list[str]:
    """Names of few syllables, so that many are alike."""
    random = Random(seed)
    syllables = ["an", "ber", "col", "dor", "en", "fal", "gri", "ho", "ing", "ltd", "é", "海"]
    return [
        " ".join(
            "".join(random.choices(syllables, k=random.randint(1, 3)))
            for _ in range(random.randint(1, 4))
        )
        for _ in range(count)
    ]


def write_names(connection: psycopg.Connection[Any], names: Iterable[str], first: int = 1) -> None:
    """Make one node for each name, from the id `first` on; an entity type where there is none."""
    connection.execute(
        "insert into aiq.entity_types (name, handle_prefix) values ('company', 'CO')"
        " on conflict do nothing"
    )
    given = list(names)
    connection.execute(
        "insert into aiq.nodes (id, entity_type)"
        " select g, 'company' from generate_series(%s::bigint, %s::bigint) as g",
        [first, first + len(given) - 1],
    )
    connection.execute(
        "insert into aiq.node_keys (node_id, key, kind)"
        " select %s + u.number - 1, u.name, 'canonical'"
        " from unnest(%s::text[]) with ordinality as u (name, number)",
        [first, given],
    )


def refresh(connection: psycopg.Connection[Any], *, rebuild: bool = False) -> Any:
    """Refresh the index; return what it says."""
    return connection.execute("select * from aiq.refresh_names(%s)", [rebuild]).fetchone()


def use_index(connection: psycopg.Connection[Any]) -> None:
    """Have the session search the index however few names there are."""
    connection.execute("set aiq.name_index_from = 0")


SERVED = "select served from aiq.indexed_name_candidates(array['x'], 0.5::real)"


def assert_exact(
    connection: psycopg.Connection[Any],
    probes: Sequence[str],
    thresholds: Iterable[float],
    *,
    served: bool = True,
) -> int:
    """Compare every answer with pg_trgm's own, to the last bit; return how many rows there were.

    And that it was the index that answered, or was not.
    """
    assert connection.execute(SERVED).fetchone() == (served,)
    rows = 0
    for threshold in thresholds:
        with connection.cursor(binary=True) as cursor:
            wanted = cursor.execute(PG_TRGM, [list(probes), threshold]).fetchall()
            found = cursor.execute(OURS, [list(probes), threshold]).fetchall()
        assert sorted(found) == sorted(wanted), threshold
        rows += len(wanted)
    return rows
