"""Redact: remove secrets from results before a model reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, cast

from handrail import Call, CheckedCall, Failure, File, Hook, Image, Result, Text
from handrail._support import is_list, is_object

_Part: TypeAlias = Text | Image | File


def redact(
    *, values: Iterable[str] = (), patterns: Iterable[str] = (), mark: str = "[redacted]"
) -> Hook:
    """Replace secrets by a mark: exact values, and regular expression matches.

    Applies to text, data, file names, and a failure's message and detail, but not to image and file
    bytes. Results pass hooks in reverse order: list it after hooks showing results to people, such
    as ``audit``.
    """
    exact = sorted({form for value in values for form in _forms(value)}, key=len, reverse=True)
    secrets = [re.compile("|".join(map(re.escape, exact)))] if exact else []
    secrets += [re.compile(pattern) for pattern in patterns]
    if any(secret.match("") for secret in secrets):
        raise ValueError("redact: a value or pattern matches the empty string.")
    cleaner = _Redactor(tuple(secrets), mark)

    def after(_call: CheckedCall | Call, result: Result) -> Result:
        return cleaner.result(result)

    return Hook(after=after)


def _forms(value: str) -> tuple[str, ...]:
    """Return a value's spellings: in text, and in JSON with and without ASCII escapes."""
    return value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]


class _Redactor:
    def __init__(self, secrets: tuple[re.Pattern[str], ...], mark: str) -> None:
        self._secrets = secrets
        self._mark = mark

    def clean(self, text: str) -> str:
        for secret in self._secrets:
            text = secret.sub(lambda _: self._mark, text)
        return text

    def result(self, result: Result) -> Result:
        data = None if result.data is None else self._data(result.data)
        same = data is not None and result.text == result.data
        return result._replace(
            text=cast("str", data) if same else self.clean(result.text),
            parts=tuple(map(self._part, result.parts)),
            data=data,
            failure=result.failure and self._failure(result.failure),
        )

    def _data(self, data: str) -> str | None:
        """Return JSON without the secrets, or None if the rest is not JSON."""
        try:
            value = json.loads(data)
            clean = self._value(value)
            written = data if clean == value else _written(clean)
            left = self.clean(written)
            if left != written:
                json.loads(left)
        except ValueError:
            return None
        return left

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.clean(value)
        if is_list(value):
            return [self._value(item) for item in value]
        if is_object(value):
            return {self.clean(key): self._value(field) for key, field in value.items()}
        text = _written(value)
        return value if self.clean(text) == text else self._mark

    def _part(self, part: _Part) -> _Part:
        if isinstance(part, Text):
            return Text(self.clean(part.text))
        return replace(part, name=self.clean(part.name)) if isinstance(part, File) else part

    def _failure(self, failure: Failure) -> Failure:
        return replace(
            failure, message=self.clean(failure.message), detail=self.clean(failure.detail)
        )


_written = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
