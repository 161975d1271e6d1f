"""Texts for people: who named the values of a call, and where it says so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from handrail._labels.sources import ValueSource

_NOUNS = {
    "email": "address",
    "url": "address",
    "net": "address",
    "host": "host",
    "iban": "account",
    "account": "account",
    "tel": "number",
}
"""Words for resources, by scheme. Any other scheme is a word itself."""
_MAX_NAMED = 3
_MAX_SHOWN_CHARS = 200
_ENDS = ("?", "!", ".")


def describe_request(
    headline: str, question: str, tool: str, sources: Iterable[ValueSource]
) -> str:
    """Return what to ask a person: the act, then one line for each source."""
    about = list(sources)
    asked, *more = split_question(question or f"Allow `{tool}`?", about).split("\n")
    act = headline or asked
    act = act if act.endswith((*_ENDS, ")")) else f"{act}?"
    return "\n".join((act, *more, *describe_sources(about)))


def split_question(question: str, sources: Iterable[ValueSource]) -> str:
    """Return a question without the lines of ``describe_sources``, if all lines are its."""
    asked, *more = question.split("\n")
    return asked if more and set(more) <= set(describe_sources(sources)) else question


def describe_sources(
    sources: Iterable[ValueSource], about: Iterable[ValueSource] | None = None
) -> list[str]:
    """Return one line for each group of values the person did not name.

    With ``about``, only for groups with one of these.
    """
    every, asked = list(sources), None if about is None else list(about)
    groups = [one for one in _group(every) if asked is None or any(of in asked for of in one)]
    lines = [_describe_group(group) for group in groups]
    named = [source.value for source in every if source.kind == "person" and not source.is_link]
    return [f"You named {_join(named)}.", *lines] if lines and named else lines


def describe_source(source: ValueSource) -> str:
    """Return one source in one line, for an explanation."""
    where = f" {source.tool} (call {source.call_id}) {source.place}".rstrip() if source.tool else ""
    return f"{source.name} {clip(source.value)}: {source.kind}{where}"


def _group(sources: Sequence[ValueSource]) -> list[list[ValueSource]]:
    """Return the values not from a person, those with the same source together."""
    groups: dict[object, list[ValueSource]] = {}
    for index, source in enumerate(sources):
        if source.kind == "person":
            continue
        shared = (source.kind, source.call_id, source.name, _field(source), source.is_link)
        alone = source.kind == "nowhere" or not source.call_id
        groups.setdefault(index if alone else shared, []).append(source)
    return list(groups.values())


def _describe_group(group: Sequence[ValueSource]) -> str:
    first, values = group[0], _join([one.value for one in group])
    noun = _NOUNS.get(first.name, first.name)
    if first.is_link and first.kind != "own" and _is_of_many(first):
        more = f" and {first.title}, which are" if first.title else ", which is"
        return f"The text has {values}{more} not from you."
    if first.kind == "nowhere":
        return _describe_made_up(first, noun)
    if first.is_link:
        return f"The text has {values}, which is not from you. {_where(group)}"
    if first.kind == "read":
        what = f"The {noun} {values} is" if len(group) == 1 else f"{values} are"
        return f"{what} not from you. {_where(group)}"
    titles = _join([f'"{clip(one.title)}"' for one in group if one.title])
    what = f"{noun} {values}{f', {titles}' if titles else ''}"
    if not first.call_id:
        return f"You wrote {values}, which may mean something else than this {noun}."
    return f"You did not name {what}. {_where(group)}"


def _is_of_many(source: ValueSource) -> bool:
    """Return whether a link was looked up together with many others."""
    return bool(source.title) or (source.kind == "read" and not source.call_id)


def _describe_made_up(source: ValueSource, noun: str) -> str:
    what = (
        f"the link {clip(source.value)} in the text"
        if source.is_link
        else f"the {noun} {clip(source.value)}"
    )
    made = f"No one wrote {what}: the model put it together."
    if not source.part:
        return made
    return f'{made} "{source.part}" is in {_result(source)}: {_mark(source.quote, source.part)}'


def _where(group: Sequence[ValueSource]) -> str:
    first = group[0]
    said = "They are" if len(group) > 1 else "It is"
    if not first.quote or len(group) > 1:
        return f"{said} from what {first.tool} returned (call {clip(first.call_id, 20)})."
    return f"{said} in {_result(first)}: {_mark(first.quote, first.value)}"


def _result(source: ValueSource) -> str:
    field = _field(source)
    place = f"the {field} in " if field else ""
    return f"{place}what {source.tool} returned (call {clip(source.call_id, 20)})"


def _field(source: ValueSource) -> str:
    """Return the field's name."""
    if not source.place:
        return ""
    names = re.findall(r"[^.\[\]]+", source.place)
    words = [name for name in names if not name.isdigit()]
    return words[-1].replace("_", " ").strip() if words else ""


def _mark(quote: str, value: str) -> str:
    """Return a quote with the value marked in it."""
    at = quote.casefold().find(value.casefold())
    if at < 0:
        return f'"{quote}"'
    end = at + len(value)
    return f'"{quote[:at]}»{quote[at:end]}«{quote[end:]}"'


def clip(text: str, most: int = _MAX_SHOWN_CHARS) -> str:
    """Return text on one line, with at most this many characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _join(values: Sequence[str]) -> str:
    shown = [clip(value) for value in values[:_MAX_NAMED]]
    more = len(values) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)
