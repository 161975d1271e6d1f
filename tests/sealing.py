"""A codec that the tests of commands name as `sealing:codec`."""

from __future__ import annotations

import os

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from handrail.runs import Codec

KEYS = {"k1": b"1" * 32, "k2": b"2" * 32}


def make_codec(key_id: str, *keys: str) -> Codec:
    """Return a codec that seals with a key, and opens with this one and others."""
    known = {name: AESGCM(KEYS[name]) for name in (key_id, *keys)}

    def encode(data: bytes) -> bytes:
        nonce = os.urandom(12)
        return nonce + known[key_id].encrypt(nonce, data, None)

    def decode(key: str, data: bytes) -> bytes:
        return known[key].decrypt(data[:12], data[12:], None)

    return Codec(key_id, encode, decode)


codec = make_codec("k1")
rotated = make_codec("k2", "k1")
