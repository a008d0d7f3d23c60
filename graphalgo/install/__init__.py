"""Installing graphalgo into a database, checking it there, and removing it."""

from __future__ import annotations

from graphalgo.install.checker import Finding, check
from graphalgo.install.errors import InstallError
from graphalgo.install.installer import InstallReport, install
from graphalgo.install.uninstaller import UninstallReport, uninstall

__all__ = [
    "Finding",
    "InstallError",
    "InstallReport",
    "UninstallReport",
    "check",
    "install",
    "uninstall",
]
