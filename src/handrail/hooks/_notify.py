"""Notify people about a call waiting for approval: a POST with its grade and a link, no content."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from urllib.parse import urlsplit

from anyio import to_thread

from handrail import Call, CheckedCall, Hook, Result
from handrail.net import is_loopback
from handrail.permissions import Pending

_log = logging.getLogger("handrail.hooks")


def notify(
    url: str,
    *,
    link: Callable[[Pending], str],
    text: Callable[[Pending], str] | None = None,
    timeout: float = 5.0,
) -> Hook:
    """Send a POST to a webhook for every call waiting for approval.

    It has JSON with ``text``, ``grade``, ``run`` and ``link``, and nothing from the call. A failing
    webhook is logged, and changes no result. A run parking again may notify again.

    Args:
        url: The webhook, with ``https`` or on this machine.
        link: Returns a request's page, such as its console page.
        text: Returns the text for people. Default: the grade and the link.
        timeout: Seconds until the webhook is given up.
    """
    parts = urlsplit(url)
    is_here = parts.scheme == "http" and is_loopback(parts.hostname or "")
    if parts.scheme != "https" and not is_here:
        raise ValueError(f"A webhook needs https, got {url!r}.")

    async def after(_call: CheckedCall | Call, result: Result) -> Result:
        if (pending := result.pending) is not None:
            place, grade = link(pending), pending.grade.name.lower()
            said = f"A call waits for approval ({grade}): {place}"
            words = said if text is None else text(pending)
            body = {"text": words, "grade": grade, "run": pending.run_id, "link": place}
            await to_thread.run_sync(_post, url, body, timeout)
        return result

    return Hook(after=after)


def _post(url: str, body: dict[str, str], timeout: float) -> None:
    import urllib.request  # loading it takes as long as all hooks
    from http.client import HTTPException
    from urllib.error import HTTPError

    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310  checked
    try:
        with urllib.request.urlopen(request, timeout=timeout):  # noqa: S310  checked
            pass
    except (OSError, ValueError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it is an open response, too
        _log.warning("the webhook for approvals failed: %s", type(error).__name__)
