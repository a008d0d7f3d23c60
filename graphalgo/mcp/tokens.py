"""Bearer tokens: which keys sign them, and what a token must say.

A key has one algorithm, and a token is held against the key's algorithm and never
against the one that the token names: no token that is signed with a public key as
if it were a secret, or with `none`, is any key's.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from graphalgo.engine.errors import GraphAlgoError, InvalidValue, MissingSetting
from graphalgo.mcp.callers import Caller, caller
from graphalgo.mcp.settings import PREFIX, SHORTEST_SECRET, Settings, secret_of

HMAC, RSA = "HS256", "RS256"

_SMALLEST_RSA = 2048
# How often a key set's file is looked at again.
_RELOAD_SECONDS = 5.0


class InvalidToken(GraphAlgoError):
    """A bearer token is missing, or does not hold (28000)."""

    sqlstate = "28000"


@dataclass(frozen=True, slots=True)
class Key:
    """A key and the only algorithm that it is for."""

    algorithm: str
    material: Any = field(repr=False)
    key_id: str | None = None


class KeySet:
    """The keys that tokens may be signed with.

    Parameters
    ----------
    settings : Settings
        A secret, a public key or a file with a key set; exactly one of them.

    Raises
    ------
    MissingSetting
        There is none (55000).
    InvalidValue
        There are several, or what is given is no such key (22023).
    """

    def __init__(self, settings: Settings) -> None:
        self._file: Path | None = settings.jwks_file
        self._seen: tuple[int, int] | None = None
        self._looked = 0.0
        self._keys = self._given(settings)

    def candidates(self, algorithm: str, key_id: str | None) -> list[Key]:
        """Give the keys that a token with that header may be signed with."""
        self._reload()
        return [
            key
            for key in self._keys
            if key.algorithm == algorithm
            and (key_id is None or key.key_id is None or key.key_id == key_id)
        ]

    def _given(self, settings: Settings) -> list[Key]:
        secret = settings.jwt_secret is not None or settings.jwt_secret_file is not None
        public = settings.jwt_public_key is not None or settings.jwt_public_key_file is not None
        given = [secret, public, self._file is not None]
        names = f"{PREFIX}JWT_SECRET, {PREFIX}JWT_PUBLIC_KEY or {PREFIX}JWKS_FILE"
        if not any(given):
            raise MissingSetting(
                "over HTTP every request needs a signed token, and there is no key to check it by",
                f"Set one of {names}; the first two may be given as …_FILE.",
            )
        if sum(given) > 1:
            raise InvalidValue(
                "tokens have several kinds of key, but one is expected", f"Set one of {names}."
            )
        if secret:
            return [Key(HMAC, secret_of(settings))]
        if public:
            written = settings.jwt_public_key or ""
            if settings.jwt_public_key_file is not None:
                written = settings.jwt_public_key_file.read_text(encoding="utf-8")
            return [Key(RSA, _public_key(written))]
        return self._read_file()

    def _reload(self) -> None:
        """Read a key set's file again when it has changed; what cannot be read changes nothing."""
        now = time.monotonic()
        if self._file is None or now - self._looked < _RELOAD_SECONDS:
            return
        self._looked = now
        try:
            status = self._file.stat()
            if (status.st_mtime_ns, status.st_size) != self._seen:
                self._keys = self._read_file()
        except (OSError, GraphAlgoError):
            return

    def _read_file(self) -> list[Key]:
        assert self._file is not None
        status = self._file.stat()
        keys = _key_set(self._file)
        self._seen = status.st_mtime_ns, status.st_size
        return keys


class Verifier:
    """Tells whose a token is.

    Parameters
    ----------
    settings : Settings
        With a key, and the audience that tokens must be for.
    """

    def __init__(self, settings: Settings) -> None:
        self.keys = KeySet(settings)
        if not settings.jwt_audience:
            raise MissingSetting(
                "a token must be meant for this server, and there is no audience to tell by",
                f"Set {PREFIX}JWT_AUDIENCE to the aud of its tokens.",
            )
        self.audience = settings.jwt_audience
        self.issuer = settings.jwt_issuer
        self.leeway = settings.jwt_leeway
        self.orgs_claim = settings.orgs_claim

    def verify(self, token: str) -> tuple[Caller, dict[str, Any]]:
        """Give the caller that a token speaks for, and all its claims.

        Raises
        ------
        InvalidToken
            The token is malformed, forged, for somebody else, expired or not yet
            valid, or its claims are not what the database takes (28000). The
            message never holds a part of the token.
        """
        claims = self._claims(token)
        try:
            return caller(claims["sub"], claims.get(self.orgs_claim)), claims
        except InvalidValue:
            raise InvalidToken(
                f"the token's sub is no uuid, or its {self.orgs_claim} is no list of uuids"
            ) from None

    def _claims(self, token: str) -> dict[str, Any]:
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError:
            raise InvalidToken("the token is malformed") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in (HMAC, RSA) or not (key_id is None or isinstance(key_id, str)):
            raise InvalidToken("the token is not signed as this server expects")
        for key in self.keys.candidates(algorithm, key_id):
            try:
                return self._decoded(token, key)
            except jwt.InvalidSignatureError:
                continue
            except jwt.ExpiredSignatureError:
                raise InvalidToken("the token has expired") from None
            except jwt.ImmatureSignatureError:
                raise InvalidToken("the token is not valid yet") from None
            except jwt.InvalidAudienceError:
                raise InvalidToken("the token is meant for another audience") from None
            except jwt.InvalidIssuerError:
                raise InvalidToken("the token is of another issuer") from None
            except jwt.MissingRequiredClaimError as error:
                raise InvalidToken(f"the token has no {error.claim}") from None
            except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
                raise InvalidToken("the token does not hold") from None
        raise InvalidToken("the token is not signed by a key of this server")

    def _decoded(self, token: str, key: Key) -> dict[str, Any]:
        claims: dict[str, Any] = jwt.decode(
            token,
            key.material,
            algorithms=[key.algorithm],
            audience=self.audience,
            issuer=self.issuer,
            leeway=self.leeway,
            options={"require": ["exp", "aud", "sub"]},
        )
        return claims


def sign(settings: Settings, sub: str, orgs: list[str] | None, seconds: int) -> str:
    """Make a token, for trying things out.

    Parameters
    ----------
    settings : Settings
        With a secret and an audience.
    sub : str
        The user, a uuid.
    orgs : list of str or None
        The organisations they ask for; None means every one of theirs.
    seconds : int
        How long the token holds.

    Raises
    ------
    MissingSetting
        There is no secret or no audience (55000).
    InvalidValue
        What should be a uuid is none (22023).
    """
    if not settings.jwt_audience:
        raise MissingSetting(
            "there is no audience to make a token for", f"Set {PREFIX}JWT_AUDIENCE."
        )
    asked = json.loads(caller(sub, orgs, ("--sub", "--orgs")).claims)
    now = int(time.time())
    claims = {"sub": asked["sub"], "aud": settings.jwt_audience, "iat": now, "exp": now + seconds}
    if "orgs" in asked:
        claims[settings.orgs_claim] = asked["orgs"]
    if settings.jwt_issuer:
        claims["iss"] = settings.jwt_issuer
    return jwt.encode(claims, secret_of(settings), algorithm=HMAC)


def _public_key(written: str) -> RSAPublicKey:
    try:
        key = load_pem_public_key(written.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPublicKey) or key.key_size < _SMALLEST_RSA:
        raise InvalidValue(
            f"the public key of the tokens is no RSA key in PEM of {_SMALLEST_RSA} bits or more",
            "Write it from -----BEGIN PUBLIC KEY----- to its end.",
        )
    return key


def _key_set(path: Path) -> list[Key]:
    try:
        written = json.loads(path.read_bytes())
        entries = list(written["keys"])
        keys = [key for entry in entries if (key := _set_key(entry)) is not None]
    except (ValueError, KeyError, TypeError, AttributeError, jwt.PyJWTError):
        keys = []
    if not keys:
        raise InvalidValue(
            f'"{path}" holds no key set with a key for {RSA} or {HMAC}',
            'Write {"keys": [{"kty": "RSA", "kid": …, "n": …, "e": …}]}.',
        )
    return keys


def _set_key(entry: dict[str, Any]) -> Key | None:
    """Read a key of a set; one for encryption, or of a kind that is not used here, is none."""
    algorithm = {"RSA": RSA, "oct": HMAC}.get(entry.get("kty", ""))
    if algorithm is None or entry.get("use", "sig") != "sig":
        return None
    if entry.get("alg", algorithm) != algorithm:
        return None
    material = jwt.PyJWK(entry, algorithm).key
    if isinstance(material, bytes) and len(material) < SHORTEST_SECRET:
        return None
    if algorithm == RSA and (
        not isinstance(material, RSAPublicKey) or material.key_size < _SMALLEST_RSA
    ):
        return None
    key_id = entry.get("kid")
    return Key(algorithm, material, key_id if isinstance(key_id, str) else None)
