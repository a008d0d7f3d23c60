"""A private, throwaway PostgreSQL: started in seconds, stopped and removed without a trace.

:func:`up` finds (or, as root on Debian and Ubuntu, installs) a PostgreSQL with
PL/Python, makes a cluster in a directory of its own, and starts it on a Unix
socket that only the invoking user and root can reach. The server's Python
finds a copy of this package. :func:`down` stops it.

The server is for development, demonstrations and tests: it does not sync to
disk, so a crash of the machine may lose what it holds.
"""

from __future__ import annotations

from graphalgo.cluster.errors import ClusterError
from graphalgo.cluster.lifecycle import down, status, up
from graphalgo.cluster.places import default_directory
from graphalgo.cluster.site import Cluster

__all__ = ["Cluster", "ClusterError", "default_directory", "down", "status", "up"]
