"""Redaction: secrets are taken out of results before a model reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeGuard, cast

from handrail import Call, Failure, File, Image, Result, Text
from handrail.hooks._hook import Hook

_Part: TypeAlias = Text | Image | File


def redact(
    *, values: Iterable[str] = (), patterns: Iterable[str] = (), mark: str = "[redacted]"
) -> Hook:
    """Put a mark in place of secrets: these values exactly, and whatever these patterns match.

    Words, data, names of files, and a failure's message and detail are cleaned; the bytes of
    pictures and files are not. Use its ``after``, before any that shows results to somebody.
    """
    exact = sorted({form for value in values for form in _forms(value)}, key=len, reverse=True)
    secrets = [re.compile("|".join(map(re.escape, exact)))] if exact else []
    secrets += [re.compile(pattern) for pattern in patterns]
    if any(secret.match("") for secret in secrets):
        raise ValueError("a value or pattern matches the empty text, and so everything")
    cleaner = _Cleaner(tuple(secrets), mark)

    async def after(_call: Call, result: Result) -> Result:
        return cleaner.result(result)

    return Hook(after=after)


def _forms(value: str) -> tuple[str, ...]:
    """A value as it stands in words, and as it may stand in JSON."""
    return value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]


class _Cleaner:
    def __init__(self, secrets: tuple[re.Pattern[str], ...], mark: str) -> None:
        self._secrets = secrets
        self._mark = mark

    def words(self, text: str) -> str:
        for secret in self._secrets:
            text = secret.sub(lambda _: self._mark, text)
        return text

    def result(self, result: Result) -> Result:
        data = None if result.data is None else self._data(result.data)
        same = data is not None and result.text == result.data
        return result._replace(
            text=cast("str", data) if same else self.words(result.text),
            parts=tuple(map(self._part, result.parts)),
            data=data,
            failure=result.failure and self._failure(result.failure),
        )

    def _data(self, data: str) -> str | None:
        """JSON without the secrets; none, if it is no JSON without them."""
        try:
            value = json.loads(data)
            clean = self._value(value)
            written = data if clean == value else _written(clean)
            left = self.words(written)
            if left != written:
                json.loads(left)
        except ValueError:
            return None
        return left

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.words(value)
        if _is_list(value):
            return [self._value(one) for one in value]
        if _is_object(value):
            return {self.words(key): self._value(one) for key, one in value.items()}
        text = _written(value)
        return value if self.words(text) == text else self._mark

    def _part(self, part: _Part) -> _Part:
        if isinstance(part, Text):
            return Text(self.words(part.text))
        return replace(part, name=self.words(part.name)) if isinstance(part, File) else part

    def _failure(self, failure: Failure) -> Failure:
        return replace(
            failure, message=self.words(failure.message), detail=self.words(failure.detail)
        )


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


_written = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
