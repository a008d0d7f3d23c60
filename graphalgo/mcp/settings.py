"""The settings of the MCP server: what the command line and the environment say."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from graphalgo.engine.errors import InvalidValue, MissingSetting

PREFIX = "GRAPHALGO_MCP_"

# A shorter secret can be guessed from one token.
SHORTEST_SECRET = 32

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_ROLE = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}")


def _number(least: float, most: float, whole: bool) -> Callable[[str, str], Any]:
    def read(name: str, written: str) -> Any:
        try:
            value = int(written) if whole else float(written)
        except ValueError:
            value = None
        # Not a number is between no two numbers.
        if value is None or not least <= value <= most:
            kind = "a whole number" if whole else "a number"
            raise InvalidValue(
                f'{name} is "{written}", but must be {kind} from {least:g} to {most:g}',
                f"Set for example {name}={least:g}, or leave it out.",
            )
        return value

    return read


def _pattern(pattern: re.Pattern[str], what: str, example: str) -> Callable[[str, str], str]:
    def read(name: str, written: str) -> str:
        if not pattern.fullmatch(written):
            raise InvalidValue(
                f'{name} is "{written}", but must be {what}', f"Set for example {name}={example}."
            )
        return written

    return read


def _text(_name: str, written: str) -> str:
    return written


def _file(name: str, written: str) -> Path:
    path = Path(written)
    if not path.is_file():
        raise InvalidValue(f'{name} is "{written}", which is no file', "Name a file that is there.")
    return path


def _list(_name: str, written: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in written.split(",") if part.strip())


def _setting(default: Any, read: Callable[[str, str], Any], about: str) -> Any:
    return field(default=default, metadata={"read": read, "about": about})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the server is told; each but ``dsn`` is also ``GRAPHALGO_MCP_`` and its name.

    Attributes
    ----------
    dsn : str
        The database, as a role that may become ``role``.
    """

    dsn: str
    role: str = _setting(
        "authenticated",
        _pattern(_ROLE, "the name of a role", "authenticated"),
        "the database role that every statement runs as",
    )
    scheme: str = _setting(
        "aiq", _pattern(_SCHEME, "the scheme of a URI", "aiq"), "the scheme of the resources' URIs"
    )
    connections: int = _setting(
        8, _number(1, 1000, True), "the most connections to the database, so the most statements"
    )
    statement_timeout: float = _setting(
        10.0, _number(0.01, 3600, False), "the most seconds that a statement may run"
    )
    wait: float = _setting(
        5.0, _number(0.01, 600, False), "the most seconds that a call waits for a connection"
    )
    request_bytes: int = _setting(
        1_000_000, _number(1000, 100_000_000, True), "the most bytes of a request"
    )
    answer_bytes: int = _setting(
        5_000_000, _number(1000, 100_000_000, True), "the most bytes of an answer"
    )
    rate: int = _setting(
        600, _number(1, 1_000_000, True), "the most requests of a user in a minute (HTTP)"
    )
    sessions: int = _setting(1000, _number(1, 100_000, True), "the most sessions at once (HTTP)")
    sessions_each: int = _setting(
        100, _number(1, 100_000, True), "the most sessions of one user (HTTP)"
    )
    session_idle: float = _setting(
        600.0, _number(0.1, 86_400, False), "the seconds after which an idle session ends (HTTP)"
    )
    shutdown: float = _setting(
        10.0, _number(0.1, 600, False), "the seconds that calls have to finish at a shutdown"
    )
    instructions: int = _setting(
        20_000, _number(1000, 1_000_000, True), "the most characters of the instructions"
    )
    allowed_hosts: tuple[str, ...] = _setting(
        (), _list, "the Host headers that are answered, with commas (HTTP; default: this machine's"
        " names where the host is this machine, else any)",
    )  # fmt: skip
    jwt_secret: str | None = _setting(None, _text, "the secret of tokens signed with HS256")
    jwt_secret_file: Path | None = _setting(None, _file, "a file that holds that secret")
    jwt_public_key: str | None = _setting(
        None, _text, "the public key, in PEM, of tokens signed with RS256"
    )
    jwt_public_key_file: Path | None = _setting(None, _file, "a file that holds that key")
    jwks_file: Path | None = _setting(None, _file, "a file with a JSON Web Key Set")
    jwt_audience: str | None = _setting(None, _text, "the aud that a token must have")
    jwt_issuer: str | None = _setting(None, _text, "the iss that a token must have, if any")
    jwt_leeway: float = _setting(
        0.0, _number(0, 300, False), "the seconds that clocks may differ by"
    )
    orgs_claim: str = _setting("orgs", _text, "the claim that names the user's organisations")

    @classmethod
    def read(cls, dsn: str, environment: Mapping[str, str] | None = None) -> Settings:
        """Read the settings from the environment.

        Parameters
        ----------
        dsn : str
            The database.
        environment : mapping, optional
            Instead of the process's own.

        Raises
        ------
        InvalidValue
            A value is not what its setting takes, or a name with the prefix is no
            setting's (22023).
        """
        environment = os.environ if environment is None else environment
        known = {PREFIX + each.name.upper(): each for each in fields(cls) if each.name != "dsn"}
        given: dict[str, Any] = {}
        for name, written in environment.items():
            if not name.startswith(PREFIX) or not written:
                continue
            if name not in known:
                raise InvalidValue(
                    f"{name} is no setting of the MCP server",
                    f"Set one of {', '.join(sorted(known))}.",
                )
            setting = known[name]
            given[setting.name] = setting.metadata["read"](name, written)
        return cls(dsn=dsn, **given)

    def describe(self) -> list[tuple[str, str]]:
        """List the settings' names in the environment, and what each is about and is if unset."""

        def about(default: Any, said: str) -> str:
            return said if default in (None, ()) else f"{said}; {default} if it is not set"

        return [
            (PREFIX + each.name.upper(), about(each.default, each.metadata["about"]))
            for each in fields(self)
            if each.name != "dsn"
        ]


def secret_of(settings: Settings) -> str:
    """Give the secret of tokens signed with HS256.

    Raises
    ------
    MissingSetting
        There is none (55000).
    InvalidValue
        It is shorter than 32 bytes (22023).
    """
    secret = settings.jwt_secret
    if settings.jwt_secret_file is not None:
        secret = settings.jwt_secret_file.read_text(encoding="utf-8").strip()
    if not secret:
        raise MissingSetting(
            "there is no secret to sign tokens with",
            f"Set {PREFIX}JWT_SECRET or {PREFIX}JWT_SECRET_FILE.",
        )
    if len(secret.encode()) < SHORTEST_SECRET:
        raise InvalidValue(
            f"the secret of the tokens has {len(secret.encode())} bytes,"
            f" but must have {SHORTEST_SECRET} or more",
            "Make one with: openssl rand -base64 32",
        )
    return secret
