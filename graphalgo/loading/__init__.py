"""Loading a graph from files, and the harbour sample, into a database.

Every load is one transaction: what a file's last line has wrong undoes its
first. Memory does not grow with the files.
"""

from __future__ import annotations

from graphalgo.loading.errors import (
    AmbiguousInLine,
    InvalidLine,
    LoadError,
    NotFoundInLine,
    UnknownNameInLine,
)
from graphalgo.loading.harbour import harbour_is_loaded, load_harbour
from graphalgo.loading.investigation import load_investigation
from graphalgo.loading.loader import LoadFiles, LoadReport, load

__all__ = [
    "AmbiguousInLine",
    "InvalidLine",
    "LoadError",
    "LoadFiles",
    "LoadReport",
    "NotFoundInLine",
    "UnknownNameInLine",
    "harbour_is_loaded",
    "load",
    "load_harbour",
    "load_investigation",
]
