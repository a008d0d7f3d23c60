"""Where the SQL files and the PL/Python bodies are, and how they are filled in.

``sql/`` and ``plpy/`` lie in the package's own ``_data`` folder in a wheel, and
beside the package in a checkout and in a copy laid out for a server.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from graphalgo.engine.errors import GraphAlgoError

_PACKAGE = Path(__file__).resolve().parent
_FIRST_FILE = "000_schema.sql"
_PLPYTHON_SUFFIX = ".plpython.sql"
_PLACEHOLDER = re.compile(r"@([a-z][a-z0-9_]*)(?::([A-Za-z0-9_./-]*))?@")
_BODY_QUOTE = "$plpython$"
# What a backend runs. The command line and the renderers never get there.
_SERVER_CODE = ("engine/*.py", "stores/*.py", "server.py", "passthrough.py", "refusals.py")


class ResourceError(GraphAlgoError):
    """A file of the package is missing or cannot be filled in (58P01)."""

    sqlstate = "58P01"


class Resources:
    """The SQL files and function bodies below one folder.

    Parameters
    ----------
    root : pathlib.Path
        The folder that holds ``sql`` and ``plpy``.
    """

    __slots__ = ("plpy", "root", "sql")

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sql = root / "sql"
        self.plpy = root / "plpy"

    def sql_files(self, plpython: bool = True) -> list[Path]:
        """List the files to run, in the order in which they are to run.

        Parameters
        ----------
        plpython : bool
            False leaves out the files that hold PL/Python functions.

        Returns
        -------
        list of pathlib.Path
            Every ``NNN_name.sql``, by name.
        """
        files = sorted(self.sql.glob("[0-9][0-9][0-9]_*.sql"), key=lambda file: file.name)
        if not files:
            raise ResourceError(
                f"there are no SQL files in {self.sql}, but the schema is made from them",
                "Install the package again: its data files are missing.",
            )
        return [file for file in files if plpython or not file.name.endswith(_PLPYTHON_SUFFIX)]

    def render(self, text: str, *, trgm_schema: str, version: str) -> str:
        """Fill in the placeholders of a SQL file.

        Parameters
        ----------
        text : str
            The file's text. ``@plpy:walk@`` stands for the text of
            ``plpy/walk.py``, ``@trgm@`` for the quoted schema of pg_trgm and
            ``@version@`` for the version of the package.
        trgm_schema : str
            The schema of pg_trgm, as it is called (not quoted).
        version : str
            The version of the package.

        Returns
        -------
        str
            The text to run. What is filled in is not searched again.

        Raises
        ------
        ResourceError
            If a placeholder is unknown or names a body that is not there.
        """

        def filled(match: re.Match[str]) -> str:
            match match.group(1), match.group(2):
                case "trgm", None:
                    return quoted(trgm_schema)
                case "version", None:
                    return version
                case "plpy", str(name):
                    return self._body(name)
            raise ResourceError(
                f"unknown placeholder {match.group(0)}",
                "Write @plpy:NAME@, @trgm@ or @version@.",
            )

        return _PLACEHOLDER.sub(filled, text)

    def _body(self, name: str) -> str:
        file = self.plpy / f"{name}.py"
        if not re.fullmatch(r"[A-Za-z0-9_]+", name) or not file.is_file():
            raise ResourceError(
                f"placeholder @plpy:{name}@ stands for {file}, which is not there",
                f"Write the body, or one of: {', '.join(sorted(_stems(self.plpy)))}.",
            )
        text = file.read_text(encoding="utf-8")
        if _BODY_QUOTE in text:
            raise ResourceError(
                f"{file} contains {_BODY_QUOTE}, which would end the function's body"
            )
        return "\n" + text

    def digest(self) -> str:
        """Sum up all SQL files and bodies, to tell whether two sets are the same.

        Returns
        -------
        str
            Hexadecimal SHA-256 over the names and contents.
        """
        return _digest(self.root, [*self.sql.glob("*.sql"), *self.plpy.glob("*.py")])


def find() -> Resources:
    """Find the package's own SQL files and bodies.

    Returns
    -------
    Resources
        From the wheel's data if it is there, else from beside the package.

    Raises
    ------
    ResourceError
        If they are in neither place.
    """
    for root in (_PACKAGE / "_data", _PACKAGE.parent):
        # Some other package's `sql` folder may lie beside this one: look for the file.
        if (root / "sql" / _FIRST_FILE).is_file():
            return Resources(root)
    raise ResourceError(
        f"neither {_PACKAGE / '_data'} nor {_PACKAGE.parent} holds sql/{_FIRST_FILE}",
        "Install the package again: its data files are missing.",
    )


def sql_files(plpython: bool = True) -> list[Path]:
    """List the package's SQL files; see :meth:`Resources.sql_files`."""
    return find().sql_files(plpython)


def render(text: str, *, trgm_schema: str, version: str) -> str:
    """Fill in a SQL file's placeholders; see :meth:`Resources.render`."""
    return find().render(text, trgm_schema=trgm_schema, version=version)


def digest() -> str:
    """Sum up the package's SQL files and bodies; see :meth:`Resources.digest`."""
    return find().digest()


def server_code_digest() -> str:
    """Sum up the Python code that runs inside a server.

    Two copies of one version can differ while the package is being worked on;
    a server with the older copy then answers as the older one did.

    Returns
    -------
    str
        Hexadecimal SHA-256 over the engine, the stores and the functions' entry.
    """
    return _digest(_PACKAGE, [file for part in _SERVER_CODE for file in _PACKAGE.glob(part)])


def source_tree() -> Path | None:
    """Tell from which source tree the package runs.

    Returns
    -------
    pathlib.Path or None
        The folder with this package's ``pyproject.toml``; None for an installed wheel.
    """
    root = _PACKAGE.parent
    project = root / "pyproject.toml"
    if project.is_file() and 'name = "graphalgo"' in project.read_text(encoding="utf-8"):
        return root
    return None


def quoted(name: str) -> str:
    """Quote a SQL identifier, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def _stems(folder: Path) -> list[str]:
    return [file.stem for file in folder.glob("*.py")]


def _digest(root: Path, files: list[Path]) -> str:
    total = hashlib.sha256()
    for file in sorted(files):
        content = file.read_bytes()
        # The length keeps the end of one file apart from the start of the next.
        total.update(f"{file.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()
