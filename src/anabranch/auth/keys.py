"""The keys that signatures are verified with, from a secret, PEM or a JSON Web Key Set (RFC 7517). Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

from ..config.callers import SHARED
from ..errors import MissingExtra

RSA_BITS = range(2048, 16_385)
"""A smaller RSA key can be broken (RFC 7518, section 3.3), a larger one makes each request expensive."""

_PEM = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", re.S)
_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_SAMPLES = {"RSA": "RS256", "OKP": "EdDSA"}


class _Set(msgspec.Struct):
    keys: list[Any]


class _Jwk(msgspec.Struct):
    kty: str
    crv: str = ""
    use: str = "sig"
    key_ops: tuple[str, ...] = ("verify",)
    alg: str | None = None
    kid: str | None = None
    d: Any = None


class Key:
    """One key, the algorithms it may be used with, and its name if it has one. Shows nothing of itself."""

    def __init__(self, material: Any, algorithms: frozenset[str], kid: str | None = None) -> None:
        self.material, self.algorithms, self.kid = material, algorithms, kid


class Keys:
    """What a token may be signed with."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._keys = tuple(keys)

    def fitting(self, alg: str, kid: str | None) -> list[Any]:
        """The keys that a token with this head can be signed with."""
        return [key.material for key in self._keys if alg in key.algorithms and (kid is None or key.kid in (None, kid))]


def from_secret(secret: bytes) -> Keys:
    """The key that is a secret."""
    return Keys([Key(secret, frozenset(SHARED))])


def from_file(data: bytes, algorithms: Collection[str]) -> Keys:
    """The public keys in PEM, or in a key set. Raises ``ValueError`` when none fits ``algorithms``."""
    found = list(_from_set(data) if data.lstrip()[:1] == b"{" else _from_pem(data))
    fitting = [key for key in found if key.algorithms & set(algorithms)]
    if not fitting:
        raise ValueError(f"no public key (PEM or JWKS) for {', '.join(algorithms)} in it")
    return Keys(fitting)


def require() -> None:
    """Raise ``MissingExtra`` unless tokens can be verified here."""
    try:
        import cryptography  # noqa: F401
        import jwt  # noqa: F401
    except ImportError:
        raise MissingExtra("PyJWT with cryptography", "auth") from None


def _from_pem(data: bytes) -> Iterator[Key]:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    for block in _PEM.findall(data):
        try:
            material = load_pem_public_key(block)
        except (ValueError, UnsupportedAlgorithm):
            raise ValueError("a public key in it cannot be read") from None
        yield Key(material, _algorithms(material))


def _from_set(data: bytes) -> Iterator[Key]:
    """What can be used of a key set; a set may have keys for other purposes, of kinds that are not known here."""
    try:
        found = msgspec.json.decode(data, type=_Set).keys
    except RecursionError:
        raise ValueError("nested too deep") from None
    for jwk in found:
        if (key := _from_jwk(jwk)) is not None:
            yield key


def _from_jwk(jwk: Any) -> Key | None:
    import jwt

    try:
        said = msgspec.convert(jwk, _Jwk)
        sample = _CURVES.get(said.crv) if said.kty == "EC" else _SAMPLES.get(said.kty)
        # A private key, and a secret (kty "oct"), would be no secret there.
        if sample is None or said.d is not None or said.use != "sig" or "verify" not in said.key_ops:
            return None
        material = jwt.PyJWK(jwk, algorithm=sample).key
        algorithms = _algorithms(material)
    except Exception:  # somebody else's data, of which only what is in order counts
        return None
    return Key(material, algorithms if said.alg is None else algorithms & {said.alg}, said.kid)


def _algorithms(material: Any) -> frozenset[str]:
    """What a public key may be used with: one family, and for a curve one algorithm."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

    if isinstance(material, rsa.RSAPublicKey) and material.key_size in RSA_BITS:
        return frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
    if isinstance(material, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        return frozenset({"EdDSA"})
    if isinstance(material, ec.EllipticCurvePublicKey):
        names = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
        return frozenset({names[material.curve.name]} if material.curve.name in names else ())
    return frozenset()
