"""Keys, tokens and requests, good ones and those that an attacker would make."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from anabranch.auth import Identifier
from anabranch.config.callers import Anonymous, Callers, ContextHeader, Jwt, SessionCookie

NOW = 1_800_000_000
ISSUER = "https://id.example.com/"
AUDIENCE = "https://agents.example.com"
API_KEY = "ci-key-0123456789-0123456789-0123456789"

RSA = rsa.generate_private_key(65537, 2048)
OTHER_RSA = rsa.generate_private_key(65537, 2048)
WEAK_RSA = rsa.generate_private_key(65537, 1024)
P256 = ec.generate_private_key(ec.SECP256R1())
P384 = ec.generate_private_key(ec.SECP384R1())
ED = ed25519.Ed25519PrivateKey.generate()

ENVIRON = {
    "CONTEXT": "context-secret-0123456789-0123456789",
    "SESSION": "session-secret-0123456789-0123456789",
    "VISITORS": "visitor-secret-0123456789-0123456789",
    "TOKENS": "token-secret-" + "0123456789" * 6,
}

CONTEXT = ContextHeader(secret_env="CONTEXT")
SESSION = SessionCookie(secret_env="SESSION", name="sid")
VISITORS = Anonymous(secret_env="VISITORS", max_age=1000.0)


def pem(*keys: Any) -> str:
    """The public halves of ``keys``."""
    return "".join(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode() for key in keys
    )


def jwk(key: Any, **fields: Any) -> dict[str, Any]:
    """The public half of ``key`` in a key set."""
    kind = {rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm, ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm}
    algorithm = next((found for it, found in kind.items() if isinstance(key, it)), jwt.algorithms.OKPAlgorithm)
    found: dict[str, Any] = algorithm.to_jwk(key.public_key(), as_dict=True)
    found.pop("key_ops", None)
    return found | fields


def jwk_set(*keys: dict[str, Any]) -> str:
    """A key set."""
    return json.dumps({"keys": keys})


def context(user: Any = "ann", *, key: str = ENVIRON["CONTEXT"], alg: str = "HS256", **claims: Any) -> str:
    """A context as the gateway signs it."""
    said = {"user": {"id": user, "email": "x@example.com"}, "identities": [], "metadata": {}}
    return jwt.encode(said | claims, key, alg)


def token(
    sub: Any = "ann",
    *,
    key: Any = RSA,
    alg: str = "RS256",
    head: Mapping[str, Any] | None = None,
    without: Sequence[str] = (),
    **claims: Any,
) -> str:
    """A bearer token of our issuer for us, unless ``claims`` say otherwise."""
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": sub, "iat": NOW - 10, "exp": NOW + 600} | claims
    return jwt.PyJWS().encode(
        json.dumps({name: value for name, value in said.items() if name not in without}).encode(),
        key,
        alg,
        headers=dict(head or {}),
    )


def session(sub: Any = "ann", *, key: str = ENVIRON["SESSION"], **claims: Any) -> str:
    """What the application that users log in to puts into its cookie."""
    return jwt.encode({"sub": sub} | claims, key, "HS256")


def part(value: Any) -> str:
    """A part of a token: bytes, text, or something as JSON."""
    data = value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forged(head: Any, claims: Any, secret: bytes | None = None) -> str:
    """Any token at all: unsigned, or with an HMAC-SHA-256 by any secret."""
    signed = f"{part(head)}.{part(claims)}"
    return f"{signed}." + ("" if secret is None else part(hmac.digest(secret, signed.encode(), hashlib.sha256)))


def changed(made: str, **claims: Any) -> str:
    """``made`` with other claims under its old signature."""
    head, said, signature = made.split(".")
    was = json.loads(base64.urlsafe_b64decode(said + "=" * (-len(said) % 4)))
    return f"{head}.{part(was | claims)}.{signature}"


def api_key_line(name: str = "ci", key: str = API_KEY) -> str:
    """A line of the file of API keys."""
    return f"{name}: {hashlib.sha256(key.encode()).hexdigest()}\n"


def bearer_section(**fields: Any) -> Jwt:
    """The section of bearer tokens; name the key and the algorithms."""
    return Jwt(**({"issuer": ISSUER, "audience": AUDIENCE, "algorithms": ["RS256"]} | fields))


class Clock:
    """Time that passes when it is told to."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


async def who(identifier: Identifier, *headers: tuple[str, str], scheme: str = "http") -> str:
    """The id of whoever sends ``headers``."""
    return (await identifier.identify(raw(*headers), scheme)).principal.id


def raw(*headers: tuple[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as ASGI gives them."""
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]


def made(section: Callers, clock: Clock | None = None, monotonic: Clock | None = None, **environ: str) -> Identifier:
    """An identifier at the time of ``clock``."""
    clock = clock or Clock()
    return Identifier.from_config(section, ENVIRON | environ, clock=clock, monotonic=monotonic or clock)
