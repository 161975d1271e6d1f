"""TokenStore: tokens by service and principal in an SQLite file, sealed with the operator's key."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

from handrail._support.lazy import name_extra

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ModuleNotFoundError as error:
    raise name_extra(error, __name__, "credentials") from error

import anyio
import anyio.to_thread

from handrail import HandrailError
from handrail._support.private_files import make_private_folder
from handrail._support.systems import others_can_write

MIN_KEY_BYTES = 32
LEASE_SECONDS = 40.0
"""How long one process may take for a refresh. A killed one blocks others for this long."""
_PAUSE_SECONDS = 0.1
_BUSY_SECONDS = 10.0
_NONCE_BYTES = 12
_TABLES = """
CREATE TABLE IF NOT EXISTS handrail_token (
    service TEXT, principal TEXT, body BLOB NOT NULL, PRIMARY KEY (service, principal)
);
CREATE TABLE IF NOT EXISTS handrail_lease (
    service TEXT, principal TEXT, ends REAL NOT NULL, holder TEXT NOT NULL,
    PRIMARY KEY (service, principal)
);
"""


class TokenStore:
    """Tokens by service and principal. Several processes of one machine can share it.

    Each entry is encrypted with AES-GCM, together with its service and principal: an entry that was
    moved to another principal cannot be opened.

    Args:
        path: The SQLite file. Only its owner can read it.
        keys: Keys of 32 bytes or more. The first one seals; all of them open.
        clock: Returns the time.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        keys: Sequence[bytes],
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not keys or any(len(key) < MIN_KEY_BYTES for key in keys):
            raise ValueError(f"TokenStore(keys=...): give keys of at least {MIN_KEY_BYTES} bytes.")
        self._path = Path(path)
        self._ciphers = dict(_make_cipher(key) for key in keys)
        self._first = _make_cipher(keys[0])[0]
        self._clock = clock
        self._is_made = False

    def __repr__(self) -> str:
        return f"TokenStore({str(self._path)!r})"

    async def get(self, service: str, principal: str) -> dict[str, Any]:
        """Return an entry, or an empty one. Raises HandrailError if it cannot be opened."""
        return await anyio.to_thread.run_sync(self._get, service, principal)

    async def put(self, service: str, principal: str, entry: dict[str, Any]) -> None:
        """Store an entry, in place of an earlier one."""
        body = self._seal(entry, service, principal)
        await anyio.to_thread.run_sync(
            self._write,
            "INSERT OR REPLACE INTO handrail_token VALUES (?, ?, ?)",
            (service, principal, body),
        )

    async def forget(self, service: str, principal: str) -> bool:
        """Remove an entry: the principal is signed out. Returns whether there was one."""
        return await anyio.to_thread.run_sync(
            self._write,
            "DELETE FROM handrail_token WHERE service = ? AND principal = ?",
            (service, principal),
        )

    @asynccontextmanager
    async def lease(self, service: str, principal: str) -> AsyncGenerator[None]:
        """Keep other tasks and processes from refreshing this entry until the block ends."""
        holder = secrets.token_hex(8)
        while not await anyio.to_thread.run_sync(self._take_lease, service, principal, holder):  # noqa: ASYNC110  the holder may be another process
            await anyio.sleep(_PAUSE_SECONDS)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(
                    self._write,
                    "DELETE FROM handrail_lease WHERE service = ? AND principal = ? AND holder = ?",
                    (service, principal, holder),
                )

    # -- in threads ------------------------------------------------------------------------------

    def _get(self, service: str, principal: str) -> dict[str, Any]:
        with closing(self._connect()) as connection:
            row = connection.execute(
                "SELECT body FROM handrail_token WHERE service = ? AND principal = ?",
                (service, principal),
            ).fetchone()
        return {} if row is None else self._open(bytes(row[0]), service, principal)

    def _write(self, statement: str, values: tuple[Any, ...]) -> bool:
        with closing(self._connect()) as connection, connection:
            return connection.execute(statement, values).rowcount > 0

    def _take_lease(self, service: str, principal: str, holder: str) -> bool:
        now = self._clock()
        return self._write(
            "INSERT INTO handrail_lease VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET ends = excluded.ends, holder = excluded.holder WHERE ends < ?",
            (service, principal, now + LEASE_SECONDS, holder, now),
        )

    def _connect(self) -> sqlite3.Connection:
        if not self._is_made:
            self._make()
        return sqlite3.connect(self._path, timeout=_BUSY_SECONDS)

    def _make(self) -> None:
        make_private_folder(self._path.parent)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        if others_can_write(self._path.stat()) or others_can_write(self._path.parent.stat()):
            raise HandrailError(f"{self._path} is not used: other users can write it.")
        with closing(sqlite3.connect(self._path, timeout=_BUSY_SECONDS)) as connection:
            connection.executescript(_TABLES)
        self._is_made = True

    # -- sealing ---------------------------------------------------------------------------------

    def _seal(self, entry: dict[str, Any], service: str, principal: str) -> bytes:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        text = json.dumps(entry).encode()
        sealed = self._ciphers[self._first].encrypt(nonce, text, _bind(service, principal))
        return self._first + nonce + sealed

    def _open(self, body: bytes, service: str, principal: str) -> dict[str, Any]:
        size = len(self._first)
        cipher = self._ciphers.get(body[:size])
        nonce, sealed = body[size : size + _NONCE_BYTES], body[size + _NONCE_BYTES :]
        opened = b""
        with suppress(InvalidTag):
            opened = cipher.decrypt(nonce, sealed, _bind(service, principal)) if cipher else b""
        if not opened:
            raise HandrailError(
                f"An entry for {service!r} in {self._path} cannot be opened: its key is missing, "
                "or it was changed."
            )
        entry: dict[str, Any] = json.loads(opened)
        return entry


def derive_key(key: bytes, purpose: str) -> bytes:
    """Return another key, made of this one."""
    return HKDF(SHA256(), 32, salt=None, info=f"handrail {purpose}".encode()).derive(key)


def _make_cipher(key: bytes) -> tuple[bytes, AESGCM]:
    derived = derive_key(key, "tokens")
    return hashlib.sha256(derived).digest()[:4], AESGCM(derived)


def _bind(service: str, principal: str) -> bytes:
    return json.dumps([service, principal]).encode()
