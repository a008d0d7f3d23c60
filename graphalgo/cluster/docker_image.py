"""The image of a PostgreSQL with graphalgo: what it is made from, its name, its making.

It is made from the same files as the package itself, and is named after their
content: it is built again when they change, and only then.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from graphalgo import resources
from graphalgo.cluster import docker_command, errors
from graphalgo.cluster.errors import ClusterError

SUITES = {15: "bookworm", 17: "trixie", 18: "forky"}
"""The suite of Debian that has each major version of PostgreSQL."""

DOCKERFILE = "docker/Dockerfile"
_FOLDERS = ("plpy", "sql")
_FILES = (
    DOCKERFILE,
    "docker/entrypoint.sh",
    "docker/prepare.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)
_BUILD_SECONDS = 3600


def build_context() -> dict[str, Path]:
    """List the files that the image is made from.

    Returns
    -------
    dict of str to pathlib.Path
        Each file's path in the build's context, in order, with where it lies.

    Raises
    ------
    ClusterError
        The package was installed without them (58P01).
    """
    package = Path(resources.__file__).resolve().parent
    root = resources.source_tree() or package / "_data"
    missing = [name for name in _FILES if not (root / name).is_file()]
    if missing:
        raise ClusterError(
            f"{root} holds no {', '.join(missing)}, from which the image is built",
            "install the package again: its data files are missing",
            sqlstate=errors.NOTHING_FOUND,
        )
    files = {name: root / name for name in _FILES}
    for folder in (root / name for name in _FOLDERS):
        files.update((str(path.relative_to(root)), path) for path in _files_below(folder))
    for path in _files_below(package):
        name = path.relative_to(package)
        if name.parts[0] != "_data":
            files[f"{package.name}/{name}"] = path
    return dict(sorted(files.items()))


def image_name(version: int) -> str:
    """Name the image of a major version after all that it is made from.

    Parameters
    ----------
    version : int
        15, 17 or 18.

    Returns
    -------
    str
        A name and tag, such as ``graphalgo:17-0f1e2d3c4b5a``.
    """
    total = hashlib.sha256()
    for name, path in build_context().items():
        content = path.read_bytes()
        # The length keeps the end of one file apart from the start of the next.
        total.update(f"{name}\0{len(content)}\0".encode())
        total.update(content)
    return f"graphalgo:{version}-{total.hexdigest()[:12]}"


def build_arguments(version: int) -> dict[str, str]:
    """Tell the Dockerfile's arguments for a major version.

    Raises
    ------
    ClusterError
        No suite of Debian is known to have that version (58P01).
    """
    if version not in SUITES:
        known = ", ".join(map(str, SUITES))
        raise ClusterError(
            f"there is no image for PostgreSQL {version}, but for {known}",
            "leave the version out to get the newest there is: graphalgo up",
            sqlstate=errors.NOTHING_FOUND,
        )
    return {"SUITE": SUITES[version], "PG": str(version)}


def build_image(version: int, *, report: Callable[[str], None] | None = None) -> str:
    """Build the image of a major version, unless it is there.

    Parameters
    ----------
    version : int
        15, 17 or 18.
    report : callable, optional
        Is told, in a sentence, that it takes time.

    Returns
    -------
    str
        The image's name.

    Raises
    ------
    ClusterError
        There is no such version (58P01), or the build fails (58000).
    """
    arguments = build_arguments(version)
    image = image_name(version)
    if docker_command.run(["image", "inspect", image]).returncode == 0:
        return image
    if report is not None:
        report(f"Building the image {image}: the first time takes minutes")
    command = ["build", "--tag", image, "--file", DOCKERFILE]
    for name, value in arguments.items():
        command += ["--build-arg", f"{name}={value}"]
    docker_command.demand(
        [*command, "-"],
        f"the image {image} could not be built",
        stdin=_archive(build_context()),
        seconds=_BUILD_SECONDS,
    )
    return image


def _archive(files: dict[str, Path]) -> bytes:
    """A tar of the files that is the same whoever makes it: the engine caches by it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, path in files.items():
            content = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _files_below(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
            yield path
