"""One call's sources: who named its destinations, and the links in its texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from handrail._labels.sources import ValueSource
from handrail._sources.heard import Heard
from handrail._sources.lookup import find_source
from handrail._sources.wanted import find_wanted
from handrail._values.access import Access
from handrail._values.effect import READ


def find_sources(
    heard: Heard | None,
    args: str,
    accesses: Iterable[Access],
    *,
    marked: Mapping[str, Any] | None,
    known: Iterable[ValueSource] = (),
) -> tuple[ValueSource, ...]:
    """Return who named each value in a call.

    Args:
        heard: What its run has heard. Without it, no one has named anything.
        args: The arguments, as JSON text.
        accesses: What the call touches.
        marked: The input schema with markers for destinations, if there are any.
        known: Sources that were looked up before, in another process.
    """
    writes = any(access.verb > READ for access in accesses)
    wanted = find_wanted(args, accesses, marked, writes=writes)
    if not wanted:
        return ()
    heard = heard if heard is not None else Heard()
    heard.catch_up()
    before = {source.value: source for source in known}
    return tuple([before.get(one.value) or find_source(heard, one) for one in wanted])
