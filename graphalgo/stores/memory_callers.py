"""What one caller sees of a graph as plain lists: the scopes of the database's rows.

The store in memory has no scopes of its own. It is filled with what the caller sees and
nothing else, so that every ranking, walk and count is made of that alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphalgo.engine.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Row = Mapping[str, Any]

VISIBILITIES = ("public", "org", "private")


class Caller:
    """A user, and the organisations whose rows they see.

    Parameters
    ----------
    sub : str
        The user.
    orgs : iterable of str, optional
        The organisations that they ask for; they can only narrow. None: all of theirs.
    members : list of mapping
        Who belongs to which organisation: `org` and `user`.

    Raises
    ------
    InvalidValue
        The members are no such list (22023).
    """

    def __init__(self, sub: str, orgs: Iterable[str] | None, members: Any) -> None:
        self.sub = _folded(sub)
        try:
            theirs = {_folded(row["org"]) for row in members if _folded(row["user"]) == self.sub}
        except (KeyError, TypeError) as error:
            raise InvalidValue(
                f"the graph's members are not what they should be: {error!r}",
                'Write "members" as a list of objects with "org" and "user".',
            ) from error
        self.orgs = theirs if orgs is None else theirs & {_folded(org) for org in orgs}
        self._hidden_nodes: set[Any] = set()
        self._hidden_passages: set[tuple[Any, Any]] = set()

    def sees(self, row: Row) -> bool:
        """Tell whether a row is the caller's to see by its own scope.

        `org_id`, `visibility` and `owner_id` are what they are in the tables; a row
        that has none of them is shared by all.
        """
        org, visibility = row.get("org_id"), row.get("visibility") or "org"
        if visibility not in VISIBILITIES:
            raise InvalidValue(
                f'"{visibility}" is not a visibility', f"Write {', '.join(VISIBILITIES)}."
            )
        if visibility == "private":
            return row.get("owner_id") is not None and _folded(row["owner_id"]) == self.sub
        return visibility == "public" or org is None or _folded(org) in self.orgs

    def only(self, name: str, add: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return what adds an entry of that list, if the caller sees it.

        The lists come in the order in which they are read: nodes and passages before
        what hangs on them.
        """
        shows = _SHOWS.get(name)
        if shows is None:
            return add

        def add_if_seen(row: Any) -> None:
            if shows(self, row):
                add(row)

        return add_if_seen

    def shows_node(self, row: Row) -> bool:
        """Tell of a node, and remember one that is not shown."""
        if self.sees(row):
            return True
        self._hidden_nodes.add(row["id"])
        return False

    def shows_key(self, row: Row) -> bool:
        """Tell of a key: it has its node's scope."""
        return row["node_id"] not in self._hidden_nodes

    def shows_edge(self, row: Row) -> bool:
        """Tell of an edge: it needs both its ends, too."""
        return self.sees(row) and not {row["src_id"], row["dst_id"]} & self._hidden_nodes

    def shows_pair(self, row: Row) -> bool:
        """Tell of what is known of two nodes."""
        return not {row["node_a"], row["node_b"]} & self._hidden_nodes

    def shows_passage(self, row: Row) -> bool:
        """Tell of a passage, and remember one that is not shown."""
        if self.sees(row):
            return True
        self._hidden_passages.add((row["source"], row["id"]))
        return False

    def shows_embedding(self, row: Row) -> bool:
        """Tell of a vector: it has its passage's scope."""
        return (row["source"], row["id"]) not in self._hidden_passages


_SHOWS: dict[str, Callable[[Caller, Row], bool]] = {
    "nodes": Caller.shows_node,
    "keys": Caller.shows_key,
    "edges": Caller.shows_edge,
    "distinct": Caller.shows_pair,
    "passages": Caller.shows_passage,
    "embeddings": Caller.shows_embedding,
}


def _folded(uuid: Any) -> str:
    return str(uuid).lower()
