"""The kind of a provider's error: by its code, its message or its status."""

from __future__ import annotations

import re
from collections.abc import Mapping

from handrail.messages import ModelErrorKind

_CODES: Mapping[str, ModelErrorKind] = {
    "API_KEY_INVALID": "auth",
    "DeploymentNotFound": "not_found",
    "RESOURCE_EXHAUSTED": "rate_limited",
    "ThrottlingException": "rate_limited",
    "UNAVAILABLE": "overloaded",
    "api_error": "overloaded",
    "authentication_error": "auth",
    "billing_error": "auth",
    "content_filter": "refused",
    "content_policy_violation": "refused",
    "context_length_exceeded": "too_long",
    "exceed_context_size_error": "too_long",
    "insufficient_quota": "auth",  # sent with status 429, but retrying does not help
    "invalid_api_key": "auth",
    "invalid_prompt": "refused",
    "model_not_found": "not_found",
    "not_found_error": "not_found",
    "overloaded_error": "overloaded",
    "permission_error": "auth",
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "request_too_large": "too_long",
    "server_error": "overloaded",
    "timeout_error": "overloaded",
}
_STATUSES: Mapping[int, ModelErrorKind] = {
    401: "auth",
    402: "auth",
    403: "auth",
    404: "not_found",
    408: "overloaded",
    413: "too_long",
    429: "rate_limited",
}
_MIN_SERVER_STATUS = 500
_INVALID = (400, 403, 422)
"""Statuses shared by many errors. Only the message tells them apart."""
_MESSAGES: Mapping[ModelErrorKind, re.Pattern[str]] = {
    "too_long": re.compile(
        r"prompt is too long|input is too long|input length and `max_tokens` exceed"
        r"|maximum context length|exceeds? (?:the )?(?:available )?context (?:size|window|length)"
        r"|token count.{0,99}exceeds the maximum|ContextWindowExceeded"
        r"|longer than the model's context",
        re.IGNORECASE | re.DOTALL,
    ),
    "refused": re.compile(
        r"content management policy|content.?filter|responsible ?ai|flagged as potentially"
        r"|requires moderation",
        re.IGNORECASE,
    ),
    "auth": re.compile(r"API key (?:not valid|expired|not found)", re.IGNORECASE),
}


def kind_of(status: int, codes: tuple[str, ...], message: str) -> ModelErrorKind:
    """Return an error's kind. The most specific statement decides."""
    for code in codes:
        if code in _CODES:
            return _CODES[code]
    if not status or status in _INVALID:
        for kind, says in _MESSAGES.items():
            if says.search(message):
                return kind
    return _STATUSES.get(status, "overloaded" if status >= _MIN_SERVER_STATUS else "other")
