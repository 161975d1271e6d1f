"""From what a model sent to what a function takes: read strictly, mend only what the schema proves.

The fast way validates the text at once and proves that no key stood twice. Everything else goes
the slow way, which reads the text a second time, looks for what JSON libraries let pass, mends
what has one reading only, and says the rest in words for a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from handrail import _complaint
from handrail._call import Args, unmended
from handrail._compact import lists_property
from handrail._json import NotJson, canonical, check, read
from handrail._mend import mended
from handrail._result import Failure, Kind
from handrail._schema import Checker, Problem, ValidationError, json_text, problems
from handrail._spec import Schema

MAX_BYTES = 1024 * 1024

_GAP_BEFORE_COLON = re.compile(r"\s:")


class Arguments:
    """The arguments of one tool: built when first used, since most tools are never called."""

    __slots__ = ("_build", "_checker", "_pairs", "_run", "_schema")

    def __init__(self, schema: Schema, build: Callable[[], Checker]) -> None:
        self._schema = schema
        self._build = build
        self._checker: Checker | None = None
        self._run: Callable[..., dict[str, Any]] | None = None
        self._pairs: Callable[[Any], int] | None = None

    def at_once(self, args: Mapping[str, Any] | str) -> dict[str, Any] | None:
        """The values of arguments that are beyond doubt; None where ``parse`` must look closer."""
        if self._run is None or self._pairs is None or type(args) is not str:
            return None
        try:
            values = self._run(args)
        except Exception:  # noqa: BLE001  a validator of the author's own; the long way tells of it
            return None
        certain = len(args) <= MAX_BYTES // 4 and proven(args, values, self._pairs)
        return values if certain else None

    def parse(self, args: Mapping[str, Any] | str) -> Args | Failure:
        """Read and check arguments; a Failure says what to correct."""
        checker = self._checker
        if checker is None:
            checker = self._checker = self._build()
            self._run, self._pairs = checker.run, checker.pairs
        try:
            text = args if isinstance(args, str) else json_text(args)
            if len(text) > MAX_BYTES // 4:  # a character is at most four bytes
                _check_size(text)
            try:
                values = checker.run(text)
            except ValidationError as error:
                return self._second_look(text, checker, problems(error))
            if checker.pairs is None or not proven(text, values, checker.pairs):
                value = read(text)
                values = value if checker.passes_on else values
        except NotJson as why:
            return _refusal(f"- {why}.")
        return unmended(values, text)

    def _second_look(self, text: str, checker: Checker, found: list[Problem]) -> Args | Failure:
        value = read(text)

        def validate(candidate: Any) -> tuple[Any, list[Problem]]:
            try:
                return checker.run(canonical(candidate)), []
            except ValidationError as again:
                return None, problems(again)

        after = mended(value, found, validate, lambda path: lists_property(self._schema, path))
        if after.left:
            return _refusal(_complaint.lines(after.left, after.value))
        check(after.value)  # a string that was read as JSON may have made it too deep
        values = after.value if checker.passes_on else after.values
        return Args(values, canonical(after.value).decode(), after.repairs)


def _refusal(lines: str) -> Failure:
    return Failure(
        Kind.BAD_ARGS,
        f"The arguments were refused and nothing was run.\n{lines}\nCorrect them and call again.",
    )


def _check_size(text: str) -> None:
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise NotJson(f"they are larger than {MAX_BYTES:,} bytes. Send less at a time")


def proven(text: str, values: Mapping[str, Any], pairs: Callable[[Any], int]) -> bool:
    """Whether it is certain, without reading the text again, that it hides nothing."""
    if "\\u0000" in text:
        return False
    count = pairs(values)
    if text.count(":") == count:
        return True
    # Colons inside strings: count only those that follow a quote, if all that end a key do.
    return text.count('":') == count and not _GAP_BEFORE_COLON.search(text)
