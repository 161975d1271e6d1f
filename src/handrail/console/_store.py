"""Every page has these: the settings, the templates, the person who asks, and the runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar, cast

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from handrail.console._config import ConsoleConfig, Role
from handrail.console._guard import Refusal, Visit
from handrail.console._identity import Person
from handrail.console._rendering import Renderer
from handrail.permissions import Answer
from handrail.runs import AnswerOutcome, Claimant, Codec, Records, open_runs
from handrail.runs.records import RequestRecord

T = TypeVar("T")
VIA = "console"
MAX_QUERY_CHARS = 200
_DIGITS = 18
"""Digits in a number every database can store."""


class Store:
    """Runs in one store. It reads what each person may see, and answers for them.

    Args:
        where: The runs' file, or ``postgresql://...``.
        codec: Opens their texts, if they are sealed.
    """

    def __init__(self, where: str, codec: Codec | None = None) -> None:
        self.runs = open_runs(where, codec=codec)
        self._records: dict[frozenset[str] | None, Records] = {}
        self._lock = threading.Lock()

    def records(self, labels: frozenset[str] | None) -> Records:
        """Return the records for runs with these labels, or for all with None. Blocks."""
        with self._lock:
            if labels not in self._records:
                self._records[labels] = self.runs.records(labels=labels)
            return self._records[labels]

    async def answer(
        self, pending_id: str, answer: Answer, person: Person, *, seen: str = ""
    ) -> AnswerOutcome:
        """Answer a request, and return whether the answer is used."""
        claimant = Claimant(person.id, person.groups, VIA, seen, (person.name,))
        return await self.runs.answer(pending_id, answer, by=claimant)

    def close(self) -> None:
        """Close all connections."""
        for records in self._records.values():
            records.close()
        self._records.clear()
        self.runs.close()


@dataclass(frozen=True, slots=True)
class Site:
    """Shared parts for all pages."""

    config: ConsoleConfig
    renderer: Renderer
    store: Store
    base: str
    """The path before every page."""
    clock: Callable[[], float]

    def page(self, template: str, visit: Visit, **values: Any) -> Response:
        """Return a page for a person."""
        common: dict[str, Any] = {"now": self.clock(), "page_size": self.config.page_size}
        return self.renderer.page(template, visit, **common, **values)

    async def read(self, visit: Visit, role: Role, work: Callable[[Records], T]) -> T:
        """Read the runs for which a person has a role, in a worker thread."""
        labels = visit.person.labels(role)
        return await to_thread.run_sync(lambda: work(self.store.records(labels)))

    async def request(self, visit: Visit, role: Role, pending: str) -> RequestRecord | None:
        """Read a run's request, for a person with the role."""
        return await self.read(visit, role, lambda runs: runs.request(pending))


def go(url: str, *cookies: str) -> Response:
    """Send the browser to a page, and set cookies."""
    response = RedirectResponse(url, HTTPStatus.SEE_OTHER)
    for cookie in cookies:
        response.headers.append("set-cookie", cookie)
    return response


def need(found: T | None) -> T:
    """Return what was found. Something a person may not see does not exist for them."""
    if found is None:
        raise Refusal(HTTPStatus.NOT_FOUND, "missing")
    return found


def visit_of(request: Request, role: Role = "viewer") -> Visit:
    """Return the visit. Without the role, the page does not exist."""
    visit = cast("Visit", request.state.visit)
    return need(visit if visit.person.may(role) else None)


def query_of(request: Request, name: str) -> str:
    """Return a query value, limited to the length a person types."""
    return request.query_params.get(name, "")[:MAX_QUERY_CHARS]


def number_of(request: Request, name: str) -> int | None:
    """Return a query number, or None if there is none."""
    text = query_of(request, name)
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None
