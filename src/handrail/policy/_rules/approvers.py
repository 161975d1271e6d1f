"""Read who may answer a rule's requests: ``approvers``, ``not_requester``, ``count``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handrail._support import is_list
from handrail.permissions import Approvers
from handrail.policy._rules.errors import InvalidRule
from handrail.policy._rules.toml_text import format_value

APPROVER_KEYS = ("approvers", "not_requester", "count")
MAX_COUNT = 10
"""Maximum approvals required by a rule."""


def read_approvers(table: Mapping[str, Any]) -> Approvers:
    """Return who may answer a rule's requests."""
    names, count = table.get("approvers"), table.get("count", 1)
    not_requester = table.get("not_requester", False)
    if names is not None and not (is_list(names) and names and all(map(_is_name, names))):
        raise InvalidRule(
            f"approvers must be a list of people and groups, got {format_value(names)}"
        )
    if type(not_requester) is not bool:
        raise InvalidRule(f"not_requester must be true or false, got {format_value(not_requester)}")
    if type(count) is not int or not 1 <= count <= MAX_COUNT:
        raise InvalidRule(
            f"count must be an integer from 1 to {MAX_COUNT}, got {format_value(count)}"
        )
    return Approvers(() if names is None else (tuple(names),), not_requester, count)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
