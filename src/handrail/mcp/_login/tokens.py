"""TokenFile: server tokens, in a file readable only by its owner."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import anyio.to_thread
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken

from handrail._support import is_object
from handrail._support.private_files import hold_lock, replace_file
from handrail.mcp._private_table import read_private_table

_EARLY_SECONDS = 30.0
"""A token ending this soon is no longer used."""


class TokenFile:
    """Server tokens, each bound to one address. A token is never sent to another one.

    Args:
        path: The file. Only its owner can read it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = Path(path)

    def __repr__(self) -> str:
        return f"TokenFile({str(self._file)!r})"

    def for_address(self, url: str) -> StoredTokens:
        """Return what is stored for a server."""
        return StoredTokens(self, url)

    def forget(self, url: str) -> bool:
        """Forget a server's tokens. Returns whether there were any."""
        had = bool(self.load().get(url))
        self.update(url, None)
        return had

    def load(self) -> dict[str, Any]:
        """Return everything stored, by address. Raises HandrailError for a damaged file."""
        return read_private_table(self._file)

    def update(self, url: str, change: dict[str, Any] | None) -> None:
        """Update a server's stored values, or remove them for None."""
        with hold_lock(self._file):
            whole = self.load()
            entry: Any = whole.pop(url, {})
            if change is not None:
                whole[url] = {**entry, **change}
            replace_file(self._file, json.dumps(whole, indent=1).encode())


class StoredTokens:
    """One server's tokens, as the SDK reads and writes them."""

    def __init__(self, file: TokenFile, url: str) -> None:
        self._tokens = file
        self._url = url

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens. An expired one is empty and so gets refreshed."""
        entry = await self._load()
        if "tokens" not in entry:
            return None
        tokens = OAuthToken.model_validate(entry["tokens"])
        ends: Any = entry.get("ends")
        if ends is not None and ends - _EARLY_SECONDS < time.time():
            return tokens.model_copy(update={"access_token": ""})
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens."""
        ends = None if tokens.expires_in is None else time.time() + tokens.expires_in
        await self._update({"tokens": tokens.model_dump(mode="json"), "ends": ends})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return how this client is registered."""
        entry = await self._load()
        known = entry.get("client")
        return None if known is None else OAuthClientInformationFull.model_validate(known)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store how this client is registered."""
        await self._update({"client": client_info.model_dump(mode="json")})

    async def get_metadata(self) -> OAuthMetadata | None:
        """Return where tokens are refreshed."""
        entry = await self._load()
        known = entry.get("metadata")
        return None if known is None else OAuthMetadata.model_validate(known)

    async def set_metadata(self, metadata: OAuthMetadata) -> None:
        """Store where tokens are refreshed."""
        await self._update({"metadata": metadata.model_dump(mode="json")})

    async def _load(self) -> dict[str, Any]:
        whole = await anyio.to_thread.run_sync(self._tokens.load)
        entry: Any = whole.get(self._url, {})
        return entry if is_object(entry) else {}

    async def _update(self, change: dict[str, Any]) -> None:
        await anyio.to_thread.run_sync(self._tokens.update, self._url, change)
