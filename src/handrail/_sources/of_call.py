"""One call's sources: who named its destinations, and the links in its texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from handrail._labels.sources import ValueSource
from handrail._sources.heard import Heard, LastLookup
from handrail._sources.lookup import find_source
from handrail._sources.many_links import find_together
from handrail._sources.wanted import find_wanted
from handrail._values.access import EVERYTHING, Access
from handrail._values.effect import READ

_FILE = "file:"


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
    heard = heard if heard is not None else Heard()
    touched = tuple(accesses)
    heard.catch_up()
    before = {source.value: source for source in known}
    writes = any(access.verb > READ for access in touched)
    wanted = find_wanted(args, touched, marked, writes=writes)
    alone = [one for one in wanted if not one.is_extra]
    found = tuple([before.get(one.value) or find_source(heard, one) for one in alone])
    if len(alone) < len(wanted):
        found += find_together(heard, wanted[len(alone) :])
    heard.last = LastLookup(args, touched, marked, heard.version, found)
    return found


def drop_workspace_files(
    sources: Iterable[ValueSource], accesses: Iterable[Access]
) -> tuple[ValueSource, ...]:
    """Return sources without a workspace's own files, and the links in texts written there."""
    written = [access.resource for access in accesses if access.verb > READ]
    paths = [name.removeprefix(_FILE) for name in written if name.startswith(_FILE)]
    inside = len(paths) == len(written) and not any(map(_is_outside, paths))
    is_command = EVERYTHING in written
    kept = [one for one in sources if one.name != "file" or _is_outside(one.value)]
    return tuple([one for one in kept if not (one.is_link and (inside or is_command))])


def _is_outside(path: str) -> bool:
    """Return whether a path may lead outside the workspace."""
    return path.startswith(("/", "~")) or ".." in path.split("/")
