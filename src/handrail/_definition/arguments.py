"""Validate a model's arguments strictly, and repair only what has one reading.

The text is validated first. Unless it certainly has no duplicate key, it is also parsed, to reject
text accepted by other parsers. If something is wrong, a second pass repairs values with only one
reading, and describes the remaining problems for the model. Text that is JSON except for a code
fence or one comma is read as it was meant, with a note.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from handrail._definition import argument_errors
from handrail._definition.repairs import repair
from handrail._definition.synonyms import Reread, Synonyms, read_synonyms
from handrail._schema.cost import Excess
from handrail._schema.json_reader import NotJson, check, count_values, read
from handrail._schema.json_schema import lists_property
from handrail._schema.problems import Problems, few_problems, problems
from handrail._schema.validator import MAX_SHORT_CHARS, Checker, Run, ValidationError, json_text
from handrail._values.call import Args
from handrail._values.result import Failure, FailureKind
from handrail._values.spec import Schema
from handrail._values.strict_json import canonical

MAX_BYTES = 1024 * 1024
MAX_THOROUGH_VALUES = 600
"""Values up to which invalid arguments are validated to the end: each may be a mistake."""
MAX_TRIED_CHARS = 200_000
"""Characters validated again in total, to try repairs."""
MIN_TRIED_CHARS = 1_000
"""Characters one try costs at least."""
MIN_TRIES = 1
_new: Callable[..., Any] = vars(tuple)["__new__"]
"""The fastest way to create a tuple; every call creates one here."""
_MAX_CHARS = 100_000
"""Limit on text to repair: it is parsed again for each slip."""
_FENCED = "the arguments: the code fence around them was removed"
_COMMA = "the arguments: a comma before the end of a list or an object was removed"
_NULL = "the arguments: null was read as no arguments"
_FENCE = "```"


class Arguments:
    """Validates one tool's arguments. Built on first use: most tools are never called."""

    __slots__ = ("_build", "_checker", "_schema", "_synonyms")

    def __init__(
        self, schema: Schema, build: Callable[[], Checker], synonyms: Synonyms | None = None
    ) -> None:
        self._schema = schema
        self._build = build
        self._synonyms = synonyms or {}
        self._checker: Checker | None = None

    def parse(self, args: Mapping[str, Any] | str) -> Args | Failure:
        """Validate arguments. A Failure lists what to fix."""
        checker = self._checker
        if checker is None:
            checker = self._checker = self._build()
        value: Any = None  # until the text is parsed
        try:
            text = args if isinstance(args, str) else json_text(args)
            if len(text) > checker.short_chars or checker.visits is not None:
                checker, value = _choose_checker(checker, text)
            try:
                values = checker.run(text)
            except ValidationError as error:
                return self._second_look(text, value, checker, error)
            pairs = checker.pairs
            # pydantic keeps the last of two equal keys, and parsing twice costs more: decision 004
            if pairs is None or "\\u0000" in text or text.count(":") != pairs(values):
                value = read(text) if value is None else value
            if checker.passes_on:
                values = value
        except NotJson as why:
            repaired = _repair_text(args) if isinstance(args, str) else None
            if repaired is None:
                return _refusal(f"- {why}.")
            return _note(self.parse(repaired.text), repaired.notes)
        made: Args = _new(Args, (values, text, ()))
        return made

    def _second_look(
        self, text: str, value: Any, checker: Checker, error: ValidationError
    ) -> Args | Failure:
        value = read(text) if value is None else value
        meant = self._reread(value)
        if meant is not None:
            return self._parse_again(meant)
        stopped = count_values(value) > MAX_THOROUGH_VALUES
        run = checker.run if stopped else checker.thorough()

        def validate(candidate: Any) -> tuple[Any, Problems]:
            if _excess(checker, text, candidate):
                raise NotJson(_TOO_MANY_WAYS)
            try:
                return run(canonical(candidate)), Problems([], complete=True)
            except ValidationError as again:
                return None, few_problems(again)

        found = Problems([], complete=True) if stopped else _problems_of(run, value)
        if not found.found:
            found = problems(error)
        after = repair(
            value,
            found,
            validate,
            lambda path: lists_property(self._schema, path),
            tries=_tries(text, checker, stopped=stopped),
        )
        if after.left.found:
            if stopped:  # the rest of a list was not validated, so report from its start
                return _refusal(_first_problems(found, value, checker, self._schema))
            left = argument_errors.format_lines(
                after.left, after.value, self._schema, stopped=False
            )
            return _refusal(left)
        check(after.value)  # a string parsed as JSON may have nested it too deeply
        values = after.value if checker.passes_on else after.values
        return Args(values, canonical(after.value).decode(), after.repairs)

    def _reread(self, value: Any) -> Reread | None:
        """Return the likely arguments, with a note on each difference."""
        if value is None:
            return Reread({}, (_NULL,))
        if not self._synonyms:
            return None
        return read_synonyms(value, self._synonyms, self._schema.get("properties", {}))

    def _parse_again(self, meant: Reread) -> Args | Failure:
        plain = Arguments(self._schema, self._build)
        plain._checker = self._checker
        return _note(plain.parse(meant.value), meant.notes)


def _note(again: Args | Failure, notes: Iterable[str]) -> Args | Failure:
    """Return the outcome for other arguments, with notes on how they differ."""
    if isinstance(again, Failure):
        return again
    return again._replace(repairs=(*notes, *again.repairs))


def _problems_of(run: Run, value: Any) -> Problems:
    try:
        run(canonical(value))
    except ValidationError as error:
        return problems(error)
    return Problems([], complete=True)


def _tries(text: str, checker: Checker, *, stopped: bool) -> int:
    """Return how many times the arguments may be validated again to try repairs."""
    least = MIN_TRIES if checker.visits is None else 0
    tries = MAX_TRIED_CHARS // max(len(text), MIN_TRIED_CHARS)
    return max(least, tries // 4 if stopped else tries)  # each repair shows only the next mistake


def _first_problems(found: Problems, value: Any, checker: Checker, schema: Schema) -> str:
    """Describe the first problems among many values; a list was read up to its first mistake."""
    window = argument_errors.find_window(found, value)
    if window is not None and count_values(window.value) <= MAX_THOROUGH_VALUES:
        left = _problems_of(checker.thorough(), window.value)
        inside = [problem for problem in left.found if window.has_mistake(problem)]
        if inside:
            left = left._replace(found=inside)
            return argument_errors.format_lines(
                left, window.value, schema, stopped=True, window=window
            )
    return argument_errors.format_lines(found, value, schema, stopped=True)


def _choose_checker(checker: Checker, text: str) -> tuple[Checker, Any]:
    """Return the checker for this text, or a lighter one if it would take long; and the value."""
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise NotJson(f"the arguments are larger than {MAX_BYTES:,} bytes. Send less at a time")
    value = read(text)
    while excess := _excess(checker, text, value):
        if checker.lighter is None:
            raise NotJson(_GAPS if excess == "gaps" else _TOO_MANY_WAYS)
        checker = checker.lighter()
    return checker, value


def _excess(checker: Checker, text: str, value: Any) -> Excess:
    if len(text) > checker.max_chars:
        return "ways"
    visits = checker.visits_if_long() if len(text) > MAX_SHORT_CHARS else checker.visits
    return "" if visits is None else visits.excess(value, len(text))


_GAPS = "the arguments are too large to check while required fields are missing. Send these too"
_TOO_MANY_WAYS = (
    "the arguments take too long to check, since alternatives are nested in one another. Send less "
    "at a time, or nest it less deeply"
)


def _refusal(lines: str) -> Failure:
    return Failure(
        FailureKind.BAD_ARGS,
        f"Not run: invalid arguments.\n{lines}\nFix these and call again.",
    )


class _RepairedText(NamedTuple):
    """JSON text, and a note on each slip it had."""

    text: str
    notes: tuple[str, ...]


def _repair_text(text: str) -> _RepairedText | None:
    """Return the intended JSON text; None if there is no single reading."""
    if len(text) > _MAX_CHARS:
        return None
    notes: list[str] = []
    for change, note in ((_open_fence, _FENCED), (_drop_comma, _COMMA)):
        changed = change(text)
        if changed is not None:
            text = changed
            notes.append(note)
    try:
        read(text)
    except NotJson:
        return None
    return _RepairedText(text, tuple(notes)) if notes else None


def _open_fence(text: str) -> str | None:
    """Return the content of a code fence around the whole text."""
    whole = text.strip()
    language, newline, rest = whole.removeprefix(_FENCE).partition("\n")
    is_fenced = whole.startswith(_FENCE) and newline and language.strip().lower() in {"", "json"}
    inside = rest.removesuffix(_FENCE)
    return inside.strip() if is_fenced and inside != rest and _FENCE not in inside else None


def _drop_comma(text: str) -> str | None:
    """Return the text without the comma at which it stops being JSON, if a value ends there."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        before = text[: error.pos + (text[error.pos : error.pos + 1] == ",")].rstrip()
        after = text[len(before) :].lstrip()
        is_extra = before.endswith(",") and before[:-1].rstrip()[-1:] not in {"", "{", "[", ","}
        return before[:-1] + after if is_extra and after[:1] in {"}", "]"} else None
    except (ValueError, RecursionError):
        pass
    return None
