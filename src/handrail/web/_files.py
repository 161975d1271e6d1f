"""Files that visitors send: bounded, of known kinds, and never shown as pages."""

from __future__ import annotations

import secrets
import time
from base64 import b64decode, b64encode
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import quote

from handrail import File, Image
from handrail.messages import Content
from handrail.runs import RunStore

KINDS = frozenset(
    {
        "application/pdf",
        "image/gif",
        "image/jpeg",
        "image/png",
        "image/webp",
        "text/csv",
        "text/plain",
    }
)
"""Media types of files, without those that can contain scripts."""
MAX_BYTES = 10 * 1024 * 1024
_MAX_NAME = 100
_PUT = "INSERT INTO handrail_file VALUES (:principal, :id, :name, :kind, :size, :at, :body)"
_GET = "SELECT name, kind, body FROM handrail_file WHERE principal = :principal AND id = :id"


class KeptFile(NamedTuple):
    """A stored file."""

    name: str
    kind: str
    data: bytes

    @property
    def content(self) -> Content:
        """The file as a part of a prompt."""
        if self.kind.startswith("image/"):
            return Image(self.data, self.kind)
        return File(self.data, self.kind, self.name)

    @property
    def headers(self) -> dict[str, str]:
        """Headers to send it with: browsers store it, and do not show it."""
        name = quote(self.name, safe="")
        return {"content-disposition": f"attachment; filename*=UTF-8''{name}"}


async def keep_file(store: RunStore, principal: str, kept: KeptFile) -> str:
    """Store a file, and return its id."""
    id_ = secrets.token_urlsafe(16)
    values = {"principal": principal, "id": id_, "name": kept.name[:_MAX_NAME], "kind": kept.kind}
    body = b64encode(kept.data).decode()
    rest = {"size": len(kept.data), "at": time.time(), "body": body}
    await store.database.transact([(_PUT, [{**values, **rest}])], 0)
    return id_


async def find_file(store: RunStore, principal: str, id: str) -> KeptFile:  # noqa: A002
    """Return a principal's file. Raises LookupError."""
    rows = await store.database.read(_GET, principal=principal, id=id)
    if not rows:
        raise LookupError(HTTPStatus.NOT_FOUND)
    name, kind, body = rows[0]
    return KeptFile(name, kind, b64decode(body))
