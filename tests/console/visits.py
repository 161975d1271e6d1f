"""A console over runs in a file, and people who visit it in process."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from handrail import Call, Result, Text
from handrail._values.effect import Effect
from handrail.agent import RunState
from handrail.console import Console, ConsoleConfig, ConsoleGroup, HeaderIdentity
from handrail.console._store import Store
from handrail.messages import Prompt, Reply
from handrail.permissions import Grade, Origin, Pending
from handrail.runs import RunRecord, RunStore

SECRET = "s" * 40
ASKED = time.time() - 60
HOST = "console.example"
GROUPS = {
    "viewers": ConsoleGroup(("viewer",), ("team=pay",)),
    "approvers": ConsoleGroup(("approver",), ("team=pay",)),
    "operators": ConsoleGroup(("operator",), ("team=pay",)),
    "auditors": ConsoleGroup(("auditor",), ("team=pay",)),
    "watchers": ConsoleGroup(("viewer",), ("team=other",)),
    "others": ConsoleGroup(("viewer", "approver", "operator", "auditor"), ("team=other",)),
    "admins": ConsoleGroup(("viewer", "approver", "operator", "auditor")),
}
BEHIND_A_PROXY = ConsoleConfig(
    identity=HeaderIdentity(secret=SECRET), hosts=(HOST,), https=True, groups=GROUPS
)


def make_pending(run: str = "r1", call: str = "c1", **fields: Any) -> Pending:
    """A refund that waits for approval, or what the fields say."""
    args = fields.pop("args", {"order": "88213", "amount": 124000})
    about: dict[str, Any] = {
        "run_id": run,
        "turn_id": "1",
        "key": f"{run}/1/{call}",
        "position": 0,
        "round": 0,
        "call": Call(fields.pop("tool", "refund"), args, call),
        "effect": Effect.WRITE,
        "accesses": (),
        "question": "Refunds need a person.",
        "fingerprint": "f" * 64,
        "asked_at": ASKED,
        "expires_at": ASKED + 86_400,
        "origin": Origin("refunds", "rules.toml", 18),
        "headline": "Refund $1,240.00 to order 88213",
        "grade": Grade.LEAVES,
    }
    return Pending(**(about | fields))


def park(
    journal: RunStore, *pending: Pending, labels: Sequence[str] = ("team=pay",), **about: Any
) -> None:
    """Record a run whose calls wait for approval, as an agent that has parked."""
    run = pending[0].run_id
    record = RunRecord(journal, run)
    first = {"agent": "order-agent", "principal": "Sam Obi", "prompt": "Refund it.", **about}
    record.set_status(status="running", labels=list(labels), **first)
    record.note([{"event": "prompt", "at": ASKED, "text": first["prompt"]}])
    calls = tuple(one.call for one in pending)
    reply = {"at": ASKED, "event": "reply", "turn": 1, "model": "m", "text": "I refund it."}
    record.note(
        [{**reply, "stop": "tools", "usage": {"input_tokens": 3, "output_tokens": 2}, "calls": []}]
    )
    for one in pending:
        at = {"at": one.asked_at, "turn": 1, "call_id": one.call.id}
        record.note(
            [
                {**at, "event": "requested", "tool": one.call.name, "args": one.call.args},
                {**at, "event": "asked", "pending": one.id, "question": one.question},
            ]
        )
    results = tuple(Result(one.call.id, "waits", pending=one) for one in pending)
    messages = (Prompt.of(first["prompt"]), Reply((Text("I refund it."), *calls)))
    record.keep(RunState(messages, waiting=results, run_id=run))
    record.set_status(status="waiting", reason="")


@dataclass
class Visitor:
    """A person with a browser that sends what browsers send."""

    client: TestClient
    headers: Mapping[str, str]
    origin: str = f"https://{HOST}"
    base: str = ""

    def get(self, path: str, **headers: str) -> Any:
        return self.client.get(
            self.base + path, headers={**self.headers, **headers}, follow_redirects=False
        )

    def post(self, path: str, form: Mapping[str, Any], **headers: str | None) -> Any:
        sent = {"origin": self.origin, "sec-fetch-site": "same-origin", **headers}
        return self.client.post(
            self.base + path,
            data=dict(form),
            headers={**self.headers, **{key: one for key, one in sent.items() if one is not None}},
            follow_redirects=False,
        )

    def form(self, path: str) -> dict[str, str]:
        """The hidden fields of the first form of a page."""
        return read_page(self.get(path).text).fields

    def answer(self, path: str, answer: str = "approve", **fields: str) -> Any:
        """Open a request, and answer with its form."""
        return self.post(path, {**self.form(path), "answer": answer, **fields})


def visit(
    file: Path, group: str = "approvers", *, name: str = "ana", console: Console | None = None
) -> Visitor:
    """Return a person of a group behind the proxy."""
    made = console or Console(BEHIND_A_PROXY, Store(str(file)))
    headers = {
        "host": HOST,
        "x-handrail-secret": SECRET,
        "x-forwarded-user": name,
        "x-forwarded-groups": group,
    }
    return Visitor(TestClient(made, base_url=f"https://{HOST}"), headers)


@dataclass
class Page(HTMLParser):
    """What a browser makes of a page: its elements, its texts, its forms."""

    elements: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    buttons: list[str] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.elements.append((tag, tuple(sorted(values))))
        self.attributes += values.values()
        self.addresses += [values[name] for name in ("href", "src", "action") if name in values]
        if tag == "input" and values.get("type") == "hidden":
            self.fields.setdefault(values["name"], values["value"])
        if tag == "button" and values.get("name") == "answer":
            self.buttons.append(values.get("value", ""))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        """The text, with single spaces."""
        return re.sub(r"\s+", " ", "".join(self.texts))


def read_page(html: str) -> Page:
    """Parse a page."""
    page = Page()
    page.feed(html)
    page.close()
    return page
