"""The configuration of a private server: fast and forgetful, reachable by its socket alone."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from graphalgo.cluster.errors import INVALID_VALUE, ClusterError

PORT = 5432  # names the socket only: nothing else is in the socket's directory

# What a throwaway server is for is to be quick to start and to fill. It still keeps
# what was committed when it is killed, as long as the machine itself goes on.
DEFAULTS: dict[str, str] = {
    "shared_buffers": "256MB",
    "work_mem": "32MB",
    "maintenance_work_mem": "256MB",
    "max_wal_size": "4GB",
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "random_page_cost": "1.1",
    "default_text_search_config": "pg_catalog.english",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}

# These keep the server private and findable, so they are not for the caller to set.
_RESERVED = frozenset(
    {
        "cluster_name",
        "config_file",
        "data_directory",
        "external_pid_file",
        "hba_file",
        "ident_file",
        "listen_addresses",
        "logging_collector",
        "port",
        "unix_socket_directories",
        "unix_socket_permissions",
    }
)

_HBA = """\
# The directory of the socket is closed to everybody but the server's user and
# root, and there is no other way in.
local all all trust
"""


def checked(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with lower-case names, after refusing names that cannot be set.

    Raises
    ------
    ClusterError
        A name is no setting's name or is one that the cluster sets itself (22023).
    """
    for name in settings:
        if not re.fullmatch(r"[A-Za-z_][\w$]*(\.[A-Za-z_][\w$]*)?", name, re.ASCII):
            raise ClusterError(
                f"{name!r} is not the name of a server setting",
                "write names as the server does, such as shared_buffers",
                sqlstate=INVALID_VALUE,
            )
        if name.lower() in _RESERVED:
            raise ClusterError(
                f"the setting {name!r} is the private cluster's own and cannot be changed",
                f"leave it out; the others reserved are: {', '.join(sorted(_RESERVED))}",
                sqlstate=INVALID_VALUE,
            )
    return {name.lower(): str(value) for name, value in settings.items()}


def configuration(settings: Mapping[str, str], *, hba_file: Path, socket_directory: Path) -> str:
    """The text of postgresql.conf: the defaults, the caller's settings, then the cluster's own."""
    own = {
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_directories": _as_list_item(str(socket_directory)),
        "unix_socket_permissions": "0700",
        "hba_file": str(hba_file),
        "logging_collector": "off",
    }
    merged = {**DEFAULTS, **_shared_memory(), **settings, **own}
    lines = [f"{name} = {_quoted(value)}" for name, value in merged.items()]
    head = "# Written by graphalgo at each start; see its `settings` instead of editing."
    return "\n".join([head, *lines, ""])


def host_based_authentication() -> str:
    """The text of pg_hba.conf."""
    return _HBA


def _shared_memory() -> dict[str, str]:
    """Parallel queries need more shared memory than a container's 64 MB of /dev/shm."""
    try:
        room = os.statvfs("/dev/shm")
    except OSError:
        return {"dynamic_shared_memory_type": "mmap"}
    small = room.f_blocks * room.f_frsize < 512 * 1024 * 1024
    return {"dynamic_shared_memory_type": "mmap"} if small else {}


def _as_list_item(value: str) -> str:
    doubled = value.replace('"', '""')
    return f'"{doubled}"'


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n")
    return f"'{escaped}'"
