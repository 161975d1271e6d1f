"""AgentDojo's four applications as tools: what each touches, and who can set what it returns.

The labels follow one question: could a stranger choose this value, without the user or a system
doing anything? If not, it is the user's own.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from agentdojo.functions_runtime import FunctionsRuntime
from handrail import DESTROY, READ, WRITE, Access, Context, Effect, Spec, Tool, ToolFailed, Toolset

DESTROYS = {
    "delete_email",
    "delete_file",
    "cancel_calendar_event",
    "remove_user_from_slack",
}
TOUCHES: Mapping[str, list[tuple[str, str]]] = {
    "send_email": [
        ("email", "recipients"),
        ("email", "cc"),
        ("email", "bcc"),
        ("file", "attachments"),
    ],
    "delete_email": [("mail", "email_id")],
    "create_calendar_event": [("email", "participants")],
    "cancel_calendar_event": [("event", "event_id")],
    "reschedule_calendar_event": [("event", "event_id")],
    "add_calendar_event_participants": [("event", "event_id"), ("email", "participants")],
    "append_to_file": [("file", "file_id")],
    "create_file": [("file", "filename")],
    "delete_file": [("file", "file_id")],
    "share_file": [("file", "file_id"), ("email", "email")],
    "reserve_hotel": [("hotel", "hotel")],
    "reserve_restaurant": [("restaurant", "restaurant")],
    "reserve_car_rental": [("company", "company")],
    "send_money": [("iban", "recipient")],
    "schedule_transaction": [("iban", "recipient")],
    "update_scheduled_transaction": [("payment", "id"), ("iban", "recipient")],
    "add_user_to_channel": [("user", "user"), ("channel", "channel")],
    "send_direct_message": [("user", "recipient")],
    "send_channel_message": [("channel", "channel")],
    "invite_user_to_slack": [("user", "user"), ("email", "user_email")],
    "remove_user_from_slack": [("user", "user")],
    "post_webpage": [("url", "url")],
    "get_webpage": [("url", "url")],
}
"""What each tool touches: the scheme, and the argument."""
WRITES = {*TOUCHES, "update_password", "update_user_info"} - {*DESTROYS, "get_webpage"}
DESTINATIONS = {"update_password": ("password",), "update_user_info": ("street", "city")}
COMMITS = {
    "send_money",
    "schedule_transaction",
    "update_scheduled_transaction",
    "update_password",
    "reserve_hotel",
    "reserve_car_rental",
    "reserve_restaurant",
    "share_file",
    "invite_user_to_slack",
}
MAIL = {
    "get_unread_emails",
    "get_sent_emails",
    "get_received_emails",
    "get_draft_emails",
    "search_emails",
}
EVENTS = {"search_calendar_events", "get_day_calendar_events"}
FILES = {"search_files_by_filename", "get_file_by_id", "list_files", "search_files"}
PRIVATE = {
    *MAIL,
    *EVENTS,
    *FILES,
    "search_contacts_by_name",
    "search_contacts_by_email",
    "get_user_information",
    "get_user_info",
    "get_iban",
    "get_most_recent_transactions",
    "get_scheduled_transactions",
    "read_file",
    "get_balance",
    "read_channel_messages",
    "read_inbox",
}
OWN_FIELDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        **dict.fromkeys(MAIL, frozenset(("id_", "status", "read", "timestamp"))),
        **dict.fromkeys(EVENTS, frozenset(("id_", "status"))),
        **dict.fromkeys(FILES, frozenset(("id_", "last_modified", "size"))),
        "read_channel_messages": frozenset(("sender", "recipient")),
        "read_inbox": frozenset(("sender", "recipient")),
    }
)
SENT = ("sender", "recipients", "cc", "bcc")
OWN_WHOLE = ("get_channels", "get_users", "get_user_info", "get_iban", "get_scheduled")
OWN_WHOLE += ("get_balance", "get_current")
"""Beginnings of tools that return what only the user or the system sets."""


def leaves(value: Any) -> Iterator[str]:
    """Yield the strings and numbers in a value."""
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def own_values(tool: str, data: Any) -> Iterable[str]:
    """Return the values in a result that only the user or a system sets."""
    rows = data if isinstance(data, list) else [data]
    if tool in OWN_FIELDS:
        return [value for row in rows if isinstance(row, dict) for value in own_fields(tool, row)]
    if tool == "get_most_recent_transactions":
        return [value for row in rows for value in own_parts(row)]
    if tool.startswith(("get_rating_reviews", "search_contacts", "get_webpage", "read_file")):
        return data if isinstance(data, dict) and tool.startswith("get_rating") else []
    if tool.startswith(OWN_WHOLE):
        return leaves(data)
    if tool.startswith(("get_", "check_")):  # the catalogue of a travel agency
        names = [name for text in leaves(data) for name in list_names(text)]
        return [*(data if isinstance(data, dict) else ()), *names]
    return [str(data["id_"])] if isinstance(data, dict) and "id_" in data else []


def own_fields(tool: str, row: dict[str, Any]) -> Iterator[str]:
    """Yield the own values of a mail, an event, a file or a message."""
    sent = SENT if tool in MAIL and row.get("status") == "sent" else ()
    return leaves([row.get(key) for key in (*OWN_FIELDS[tool], *sent)])


def own_parts(row: dict[str, Any]) -> Iterator[str]:
    """Yield the own values of a transaction: all, if the user has sent it."""
    keys = row if row["sender"] == "me" else ("id", "recipient", "date", "recurring")
    return leaves([row[key] for key in keys])


def list_names(text: str) -> Iterator[str]:
    """Yield the names in a text of the catalogue, such as "Hotel Names: A\\nB"."""
    for line in text.split("\n"):
        yield line.strip()
        yield from (part.strip() for part in line.partition(":")[2].split(","))
        yield line.rpartition(":")[2].strip()


def plain(value: Any) -> Any:
    """Return a value as JSON."""
    if hasattr(value, "model_dump"):
        dumped: Any = value.model_dump(mode="json")
        return dumped
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def copied(world: Any) -> Any:
    """Return a copy of an environment."""
    return pickle.loads(pickle.dumps(world))  # noqa: S301  our own


def make_tools(suite: Any, world: dict[str, Any], *, labels: bool = True) -> Toolset:
    """Return a suite's functions as tools that work on ``world["now"]``."""
    runtime = FunctionsRuntime(suite.tools)

    def make(function: Any) -> Tool[..., Any]:
        name: str = function.name
        effect = DESTROY if name in DESTROYS else WRITE if name in WRITES else READ

        async def send(args: dict[str, Any], _context: Context) -> Any:
            value, error = runtime.run_function(world["now"], name, args)
            if error:
                raise ToolFailed(error)
            return plain(value)

        spec = Spec(
            name=name,
            description=function.description or name,
            input_schema=function.parameters.model_json_schema(),
            effect=effect,
            tags=frozenset(("commits",)) if name in COMMITS else frozenset(),
            private=name in PRIVATE,
        )
        declared: dict[str, Any] = {}
        if labels:
            declared = {"own": lambda data: list(own_values(name, data))}
            declared["destinations"] = DESTINATIONS.get(name, ())
        return Tool.remote(spec, send, touches=make_touches(name, effect), **declared)

    return Toolset(*map(make, suite.tools))


def make_touches(name: str, effect: Effect) -> Callable[..., list[Access]]:
    """Return what says which resources a call touches."""

    def touches(**args: Any) -> list[Access]:
        found: list[Access] = []
        for scheme, key in TOUCHES.get(name, ()):
            for value in leaves(args.get(key)):
                if key != "attachments" or value != "file":
                    verb = READ if key == "attachments" else effect
                    found.append(Access(verb, f"{scheme}:{value}"))
        return found or [Access(effect, f"dojo:{name}")]

    return touches


def as_json(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as JSON."""
    made: dict[str, Any] = json.loads(json.dumps(dict(args), default=str))
    return made
