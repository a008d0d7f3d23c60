"""Which tokens are let in."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import time

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from graphalgo.engine.errors import InvalidValue, MissingSetting
from graphalgo.mcp import tokens
from graphalgo.mcp.settings import Settings
from graphalgo.mcp.tokens import InvalidToken, Verifier
from tests.mcp import serving
from tests.mcp.conftest import ADA, ORG_A

PRIVATE, OTHER = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
PUBLIC_PEM = PRIVATE.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)


def claims(**changes):
    given = {"sub": ADA, "aud": serving.AUDIENCE, "exp": int(time.time()) + 60} | changes
    return {name: value for name, value in given.items() if value is not None}


def secret_verifier(**settings):
    return Verifier(
        Settings(dsn="", jwt_secret=serving.SECRET, jwt_audience=serving.AUDIENCE, **settings)
    )


def part(document):
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()


def hand_signed(header, payload, secret):
    """Sign with HMAC whatever the library would refuse to."""
    signed = f"{part(header)}.{part(payload)}"
    digest = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def test_a_good_token_gives_its_claims_alone():
    written = jwt.encode(claims(orgs=[ORG_A], role="postgres"), serving.SECRET, "HS256")
    who, _ = secret_verifier().verify(written)
    assert json.loads(who.claims) == {"sub": ADA, "orgs": [ORG_A]}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"exp": int(time.time()) - 10}, "expired"),
        ({"exp": None}, "no exp"),
        ({"exp": "soon"}, "does not hold"),
        ({"aud": None}, "no aud"),
        ({"aud": "another"}, "another audience"),
        ({"sub": None}, "no sub"),
        ({"sub": "ada"}, "no uuid"),
        ({"sub": 7}, "does not hold|no uuid"),
        ({"orgs": "x"}, "no list of uuids"),
        ({"orgs": ["x"]}, "no list of uuids"),
        ({"nbf": int(time.time()) + 10**6}, "not valid yet"),
    ],
)
def test_claims_that_do_not_hold_are_refused(changes, says):
    written = jwt.encode(claims(**changes), serving.SECRET, "HS256")
    with pytest.raises(InvalidToken, match=says) as refused:
        secret_verifier().verify(written)
    assert written.split(".")[1] not in str(refused.value)


def test_an_issuer_is_held_to_the_setting():
    verifier = secret_verifier(jwt_issuer="https://issuer.test")
    good = jwt.encode(claims(iss="https://issuer.test"), serving.SECRET, "HS256")
    assert verifier.verify(good)[0].subject == ADA
    for other in ({"iss": "https://other.test"}, {}):
        with pytest.raises(InvalidToken):
            verifier.verify(jwt.encode(claims(**other), serving.SECRET, "HS256"))


@pytest.mark.parametrize(
    "forged",
    [
        f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(claims())}.",
        hand_signed({"alg": "none"}, claims(), serving.SECRET.encode()),
        hand_signed({"alg": "HS256"}, claims(), b"another secret of more than thirty-two bytes"),
        hand_signed({"alg": "HS512"}, claims(), serving.SECRET.encode()),
        hand_signed({"alg": "HS256", "crit": ["x"]}, claims(), serving.SECRET.encode()),
        hand_signed({"alg": ["HS256"]}, claims(), serving.SECRET.encode()),
        jwt.encode(claims(), PRIVATE, "RS256"),
        "a.b.c",
        "a",
        "...",
        "\x00",
    ],
)
def test_forged_tokens_are_refused(forged):
    with pytest.raises(InvalidToken):
        secret_verifier().verify(forged)


def test_a_public_key_is_no_secret():
    """Signed by HMAC with the public key, which everybody knows, a token is forged."""
    verifier = Verifier(
        Settings(dsn="", jwt_public_key=PUBLIC_PEM.decode(), jwt_audience=serving.AUDIENCE)
    )
    assert verifier.verify(jwt.encode(claims(), PRIVATE, "RS256"))[0].subject == ADA
    for forged in (
        hand_signed({"alg": "HS256"}, claims(), PUBLIC_PEM),
        hand_signed({"alg": "RS256"}, claims(), PUBLIC_PEM),
        jwt.encode(claims(), OTHER, "RS256"),
    ):
        with pytest.raises(InvalidToken):
            verifier.verify(forged)


def key_set(path, *keys):
    entries = [
        json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
        | {"kid": kid, "use": "sig"}
        for kid, key in keys
    ]
    path.write_text(json.dumps({"keys": entries}))


def test_a_key_set_is_read_again_when_its_file_changes(tmp_path, monkeypatch):
    path = tmp_path / "keys.json"
    key_set(path, ("one", PRIVATE))
    verifier = Verifier(Settings(dsn="", jwks_file=path, jwt_audience=serving.AUDIENCE))
    monkeypatch.setattr(tokens, "_RELOAD_SECONDS", 0.0)
    old = jwt.encode(claims(), PRIVATE, "RS256", headers={"kid": "one"})
    new = jwt.encode(claims(), OTHER, "RS256", headers={"kid": "two"})
    assert verifier.verify(old)[0].subject == ADA
    with pytest.raises(InvalidToken, match="not signed by a key"):
        verifier.verify(new)
    key_set(path, ("two", OTHER))
    os.utime(path, ns=(1, 1))
    assert verifier.verify(new)[0].subject == ADA
    with pytest.raises(InvalidToken):
        verifier.verify(old)
    path.write_text("half a f")
    assert verifier.verify(new)[0].subject == ADA


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({}, MissingSetting, "no key to check"),
        ({"jwt_secret": "short"}, InvalidValue, "has 5 bytes"),
        ({"jwt_secret": "x" * 40}, MissingSetting, "no audience"),
        ({"jwt_public_key": "no key"}, InvalidValue, "no RSA key"),
        ({"jwt_public_key": PUBLIC_PEM.decode(), "jwt_secret": "x" * 40}, InvalidValue, "several"),
    ],
)
def test_a_server_without_a_sound_key_does_not_start(settings, error, says):
    with pytest.raises(error, match=says):
        Verifier(Settings(dsn="", **settings))


@pytest.mark.parametrize(
    ("header", "challenge"),
    [
        (None, 'Bearer realm="graphalgo"'),
        ("Basic YTpi", 'Bearer realm="graphalgo"'),
        ("Bearer", 'Bearer realm="graphalgo"'),
        (f"Bearer {serving.token(ADA, exp=1)}", "the token has expired"),
        (f"Bearer {serving.token(ADA, secret='x' * 40)}", "not signed by a key"),
        (f"Bearer {serving.token(ADA)}x", "not signed by a key"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_without_a_good_token_a_request_is_401(shared_server, method, header, challenge):
    headers = serving.ACCEPT | ({"authorization": header} if header else {})
    answer = httpx2.request(method, shared_server.url, headers=headers)
    assert answer.status_code == 401
    assert challenge in answer.headers["www-authenticate"]
    assert answer.headers["www-authenticate"].startswith("Bearer ")
    assert answer.json()["error"]["message"]


def test_a_made_token_is_let_in():
    settings = Settings(dsn="", jwt_secret=serving.SECRET, jwt_audience=serving.AUDIENCE)
    made = tokens.sign(settings, ADA, [ORG_A], 60)
    assert json.loads(Verifier(settings).verify(made)[0].claims)["orgs"] == [ORG_A]
    with pytest.raises(InvalidValue, match="must be a uuid"):
        tokens.sign(settings, "ada", None, 60)
