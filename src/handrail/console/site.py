"""Every page has these: the settings, the templates, the runs, and the person who asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar, cast

from anyio import to_thread
from starlette.requests import Request

from handrail.console.config import ConsoleConfig, Role
from handrail.console.guard import Refusal, Visit
from handrail.console.rendering import Renderer
from handrail.console.store import Store
from handrail.runs import Records

T = TypeVar("T")
MAX_QUERY_CHARS = 200


@dataclass(frozen=True, slots=True)
class Site:
    """The parts that pages share."""

    config: ConsoleConfig
    renderer: Renderer
    store: Store
    base: str
    """The path before every page."""
    clock: Callable[[], float]

    async def read(self, visit: Visit, role: Role, work: Callable[[Records], T]) -> T:
        """Read the runs for which a person has a role, in a worker thread."""
        labels = visit.person.labels(role)
        return await to_thread.run_sync(lambda: work(self.store.records(labels)))


def visit_of(request: Request, role: Role = "viewer") -> Visit:
    """Return the visit. Without the role, the page does not exist."""
    visit = cast("Visit", request.state.visit)
    if not visit.person.may(role):
        raise Refusal(HTTPStatus.NOT_FOUND, "missing")
    return visit


def query_of(request: Request, name: str) -> str:
    """Return a value of the query, of a length that a person types."""
    return request.query_params.get(name, "")[:MAX_QUERY_CHARS]


def number_of(request: Request, name: str) -> int | None:
    """Return a number of the query; None if there is none."""
    text = query_of(request, name)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None  # noqa: PLR2004
