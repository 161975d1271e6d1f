"""Templates, and the two static files, whose names change with their content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from handrail.console._config import Role
from handrail.console._figures import ago, count, duration, moment, short_moment, time_left
from handrail.console._guard import NO_ONE, STATIC, Visit
from handrail.console._identity import Person
from handrail.console._request import LOOKS, SIGNS, tag_of
from handrail.console._shown import Clear, escaped, finish, one_line, pieces
from handrail.runs.records import to_path
from handrail.runs.wording import describe_call_status, describe_status

MENU: tuple[tuple[Clear, Clear, Role], ...] = (
    (Clear("inbox"), Clear("Inbox"), "viewer"),
    (Clear("runs"), Clear("Runs"), "viewer"),
    (Clear("rules"), Clear("Rules"), "viewer"),
    (Clear("audit"), Clear("Audit"), "auditor"),
    (Clear("fleet"), Clear("Fleet"), "operator"),
)
_TYPES = {"css": "text/css", "js": "text/javascript"}


@cache
def make_environment() -> Environment:
    """Return the templates. Everything they print is made visible and escaped."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=PackageLoader("handrail.console"),
        finalize=finish,  # no template can forget it: decision 075
        trim_blocks=True,
        lstrip_blocks=True,
    )
    known: dict[str, Any] = environment.globals
    own = (one_line, pieces, escaped, tag_of, to_path)
    said = (ago, count, duration, moment, short_moment, time_left)
    known |= {function.__name__: function for function in (*own, *said)}
    known |= {"menu": MENU, "looks": LOOKS, "signs": SIGNS}
    known |= {"status": describe_status, "call_status": describe_call_status}
    known |= {"details": {}, "facts": {}}  # only an exported run has details
    return environment


class Renderer:
    """Renders a console's templates below a path."""

    def __init__(self, root: str, base: str, *, unknown: str) -> None:
        self._unknown = unknown
        self._files = dict(_read_static())
        names = {name.rpartition(".")[2]: Clear(f"{root}{name}") for name in self._files}
        self._common = {"base": Clear(base), "style": names["css"], "script": names.get("js", "")}
        self._common["way_out"] = Clear("/logout" if unknown == "login" else "")

    def text(self, template: str, **values: Any) -> str:
        """Return a template with these values."""
        found = make_environment().get_template(template)
        return found.render({"person": None, **self._common, **values})

    def page(
        self, template: str, visit: Visit, *, http_status: int = HTTPStatus.OK, **values: Any
    ) -> Response:
        """Return a page for a person."""
        person: Person | None = None if visit.person is NO_ONE else visit.person
        values |= {"parent": "live.html" if visit.live else "base.html"}
        text = self.text(template, person=person, token=Clear(visit.token), **values)
        return HTMLResponse(text, status_code=http_status)

    def refuse(self, status: HTTPStatus, message: str) -> Response:
        """Return a rejection page. ``message`` may end with a fault, or a quoted path."""
        name, _, more = message.partition(" ")
        name = self._unknown if name == "unknown" else name
        page = self.text("message.html", more=Clear(more), name=name)
        return HTMLResponse(page, status_code=status)

    def static(self, path: str) -> Response:
        """Return a static file. Its name has its content's digest."""
        content = self._files.get(path)
        if content is None:
            return self.refuse(HTTPStatus.NOT_FOUND, "missing")
        headers = {"cache-control": "public, max-age=31536000, immutable"}
        media = _TYPES[path.rpartition(".")[2]]
        return Response(content, media_type=media, headers=headers)


def _read_static() -> Iterator[tuple[str, bytes]]:
    for file in files("handrail.console").joinpath("static").iterdir():
        stem, _, kind = file.name.rpartition(".")
        content = file.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:16]
        yield f"{STATIC}{stem}.{digest}.{kind}", content
