"""Files that visitors send: bounded, in known kinds, and never shown as pages."""

from __future__ import annotations

import secrets
import time
from base64 import b64decode, b64encode
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from handrail import File, Image
from handrail.messages import Content
from handrail.runs import RunStore
from handrail.web._guard import Refusal, Slots, read_bytes
from handrail.web._visitor import Visitor

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
MAX_ARRIVING = 40
"""How many files arrive at once. Each is in memory until it is stored."""
MAX_ARRIVING_EACH = 10
"""How many of them from one principal."""
_MAX_NAME = 100
_ROOM = (
    "(SELECT COUNT(*) < :count AND COALESCE(SUM(size), 0) + :size <= :most FROM handrail_file "
    "WHERE principal = :principal)"
)
_PUT = (
    "INSERT INTO handrail_file SELECT :principal, :id, :name, :kind, :size, :at, :body "
    f"WHERE {_ROOM}"
)
_ALONE = "SELECT pg_advisory_xact_lock(hashtext('handrail_file'), hashtext(:principal))"
"""On PostgreSQL, files of one principal wait for one another: together they must not exceed it."""
_GET = "SELECT name, kind, body FROM handrail_file WHERE principal = :principal AND id = :id"
_SENT = "SELECT COALESCE(SUM(LENGTH(body)), 0) FROM handrail_message WHERE principal = :principal"
_DELETE = "DELETE FROM handrail_file WHERE principal = :principal AND id = :id"
MAX_FILES = 1_000
"""How many files one principal keeps. Small ones have costs, too."""


class KeptFile(NamedTuple):
    """A stored file."""

    name: str
    kind: str
    data: bytes

    @property
    def content(self) -> Content:
        """The file as a prompt part."""
        if self.kind.startswith("image/"):
            return Image(self.data, self.kind)
        return File(self.data, self.kind, self.name)

    @property
    def headers(self) -> dict[str, str]:
        """Headers to send it with: browsers store it, and do not show it."""
        name = quote(self.name, safe="")
        return {"content-disposition": f"attachment; filename*=UTF-8''{name}"}


class Files:
    """The routes for files, each for the visitor's own.

    Args:
        store: Keeps them.
        most: How many bytes one principal may keep.
    """

    def __init__(self, store: RunStore, most: int) -> None:
        self._store = store
        self._most = most
        self._arriving = Slots(each=MAX_ARRIVING_EACH, total=MAX_ARRIVING, what="files on the way")

    async def keep(self, request: Request, visitor: Visitor) -> Response:
        """Store a file."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in KINDS:
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Send {', '.join(sorted(KINDS))}.")
        name = request.query_params.get("name", "file")
        with self._arriving.take(visitor.principal):
            data = await read_bytes(request, most=MAX_BYTES)
            kept = KeptFile(name if name.isprintable() else "file", kind, data)
            id_ = await keep_file(self._store, visitor.principal, kept, most=self._most)
        return JSONResponse({"id": id_}, HTTPStatus.CREATED)

    async def send(self, request: Request, visitor: Visitor) -> Response:
        """Send a file back, as a download."""
        found = await find_file(self._store, visitor.principal, request.path_params["id"])
        return Response(found.data, media_type=found.kind, headers=found.headers)

    async def delete(self, request: Request, visitor: Visitor) -> Response:
        """Delete a file. Messages that were sent with it keep it."""
        where = {"principal": visitor.principal, "id": request.path_params["id"]}
        if not await self._store.database.write(_DELETE, **where):
            raise LookupError(where["id"])
        return Response(status_code=HTTPStatus.NO_CONTENT)


async def keep_file(store: RunStore, principal: str, kept: KeptFile, *, most: int) -> str:
    """Store a file, and return its id. Raises Refusal if it has no room."""
    id_, database = secrets.token_urlsafe(16), store.database
    values = {"principal": principal, "id": id_, "name": kept.name[:_MAX_NAME], "kind": kept.kind}
    body = b64encode(kept.data).decode()
    rest = {"size": len(kept.data), "at": time.time(), "body": body}
    steps: list[Any] = [(_PUT, [{**values, **rest, "most": most, "count": MAX_FILES}])]
    if database.is_postgres:
        steps.insert(0, (_ALONE, [{"principal": principal}]))
    if not (await database.transact(steps, 0))[-1]:
        room = f"{most:,} bytes in {MAX_FILES:,} files"
        text = f"There is no room for this file: you can keep {room}. Delete others first."
        raise Refusal(HTTPStatus.INSUFFICIENT_STORAGE, text)
    return id_


async def check_room(
    store: RunStore, principal: str, files: Sequence[KeptFile], *, most: int
) -> None:
    """Raise Refusal if messages would have no room for these files, as each stores its own."""
    if not files:
        return
    ((stored,),) = await store.database.read(_SENT, principal=principal)
    if stored + sum(len(one.data) for one in files) > most:
        text = f"Your messages have no room for files: they can have {most:,} bytes. "
        raise Refusal(HTTPStatus.INSUFFICIENT_STORAGE, f"{text}Delete conversations first.")


async def find_file(store: RunStore, principal: str, id: str) -> KeptFile:  # noqa: A002
    """Return a principal's file. Raises LookupError."""
    rows = await store.database.read(_GET, principal=principal, id=id)
    if not rows:
        raise LookupError(HTTPStatus.NOT_FOUND)
    name, kind, body = rows[0]
    return KeptFile(name, kind, b64decode(body))
