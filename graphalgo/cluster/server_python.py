"""Brings this package to the server's Python.

The server runs its own Python, knows nothing of the caller's virtual
environment, and may not be allowed to read the checkout. So the package is
copied into the cluster's directory and found there through PYTHONPATH. Each
copy lies under the digest of its content, and the link `python` names the
current one: it changes in one step, and backends that start later follow it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import graphalgo
from graphalgo import resources
from graphalgo.cluster.account import Account

LINK = "python"
_COPIES = "python-copies"
_DIGEST_FORMAT = b"1"  # to be raised when what is done with a copy changes
_NOT_COPIED = ("__pycache__", "_data")


def refresh(
    directory: Path,
    python_version: str | None,
    account: Account,
    report: Callable[[str], None],
) -> bool:
    """Bring the copy of the package in a cluster's directory up to date.

    Parameters
    ----------
    directory : Path
        The cluster's directory.
    python_version : str or None
        The Python that the server's PL/Python links, such as `3.11`; the copy is
        byte-compiled for it, since a fresh backend should not have to.
    account : Account
        Whom the server runs as.
    report : callable
        Is told when the copy cannot be compiled ahead.

    Returns
    -------
    bool
        Whether a new copy was made; a copy with the same content is kept.
    """
    files = dict(_package_files())
    digest = _digest(files, python_version)
    link, copy = directory / LINK, directory / _COPIES / digest
    if link.is_symlink() and os.readlink(link) == f"{_COPIES}/{digest}" and copy.is_dir():
        return False
    _make_copy(files, copy, python_version, account, report)
    _point(link, f"{_COPIES}/{digest}")
    for other in copy.parent.iterdir():
        if other != copy:
            shutil.rmtree(other)
    return True


def _package_files() -> Iterator[tuple[str, Path]]:
    """The files of the package, by their path in the copy.

    A wheel carries the SQL files inside the package; a checkout has them beside
    it, and its copy is laid out as a wheel's.
    """
    package = Path(graphalgo.__file__).resolve().parent
    for path in _files_below(package):
        yield f"graphalgo/{path.relative_to(package).as_posix()}", path
    data = resources.find()
    for source in (data.sql, data.plpy):
        for path in _files_below(source):
            yield f"graphalgo/_data/{source.name}/{path.relative_to(source).as_posix()}", path


def _files_below(top: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if name not in _NOT_COPIED)
        for name in sorted(names):
            if not name.endswith((".pyc", ".swp", "~")):
                yield Path(place, name)


def _digest(files: dict[str, Path], python_version: str | None) -> str:
    total = hashlib.sha256(_DIGEST_FORMAT)
    total.update(str(python_version).encode())
    for name, path in files.items():
        content = path.read_bytes()
        total.update(f"{name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()[:16]


def _make_copy(
    files: dict[str, Path],
    copy: Path,
    python_version: str | None,
    account: Account,
    report: Callable[[str], None],
) -> None:
    copy.parent.mkdir(exist_ok=True)
    copy.parent.chmod(0o755)
    staging = copy.with_name(f"{copy.name}.new")
    for leftover in (staging, copy):
        if leftover.exists():
            shutil.rmtree(leftover)
    staging.mkdir()
    staging.chmod(0o755)
    for name, path in files.items():
        target = staging / name
        for folder in reversed(target.relative_to(staging).parents[:-1]):
            place = staging / folder
            if not place.exists():
                place.mkdir()
                place.chmod(0o755)  # whatever the caller's umask: the server has to read it
        shutil.copyfile(path, target)
        target.chmod(0o644)
    trouble = _compile(staging, python_version)
    if trouble:
        report(
            "The package could not be compiled for the server's Python, so the first backend"
            f" that imports it will do that: {trouble}"
        )
        _let_server_compile(staging, account)
    staging.rename(copy)


def _compile(top: Path, python_version: str | None) -> str | None:
    """Byte-compile a copy for the server's Python; why not, when that cannot be done."""
    interpreter = _interpreter(python_version)
    if interpreter is None:
        return f"there is no program python{python_version or ''} on this machine"
    # The copy never changes, so nothing need be compared when it is imported. The
    # data holds function bodies, which are not whole programs.
    options = ["-q", "--invalidation-mode", "unchecked-hash", "-x", "graphalgo/_data/"]
    done = subprocess.run(
        [interpreter, "-I", "-m", "compileall", *options, str(top)],
        check=False,
        env={"PATH": os.defpath},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        umask=0o022,
    )
    if done.returncode == 0:
        return None
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return " ... ".join(line.strip() for line in (lines[0], lines[-1])) if lines else interpreter


def _interpreter(python_version: str | None) -> str | None:
    """A program that writes byte code which the server's Python reads."""
    if python_version is None:
        return None
    for place in ("/usr/bin", "/usr/local/bin"):
        program = f"{place}/python{python_version}"
        if os.access(program, os.X_OK):
            return program
    # Byte code is the same for all builds of one minor version of CPython.
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running == python_version and sys.implementation.name == "cpython":
        return sys.executable
    return None


def _let_server_compile(top: Path, account: Account) -> None:
    for place, _, _ in os.walk(top):
        account.give(Path(place))


def _point(link: Path, target: str) -> None:
    fresh = link.with_name(f"{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    os.replace(fresh, link)
