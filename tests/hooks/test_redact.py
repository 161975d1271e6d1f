"""Redaction: secrets are taken out of results before a model reads them."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import (
    READ,
    Call,
    Executor,
    Failure,
    FailureKind,
    File,
    Image,
    Result,
    Text,
    ToolFailed,
    Toolset,
    tool,
)
from handrail.hooks import Hook, redact

KEY = "sk-12345"


async def given(hook: Hook, value: object) -> Result:
    """What a model reads of a tool that gives this, or raises it."""

    @tool(effect=READ)
    async def show():  # type: ignore[no-untyped-def]  # noqa: ANN202  any value, none promised
        """Show."""
        if isinstance(value, Exception):
            raise value
        return value

    async with Executor(Toolset(show), hooks=[hook]) as executor:
        return await executor.run(Call("show", {}, "c1"))


async def test_values_and_what_patterns_match_are_replaced_in_words() -> None:
    hook = redact(values=[KEY], patterns=[r"\b\d{4}-\d{4}\b"])

    assert await given(hook, f"key {KEY}, card 1234-5678, room 12") == Result(
        "c1", "key [redacted], card [redacted], room 12"
    )


async def test_data_stays_json() -> None:
    hook = redact(values=[KEY, "4711"], mark="***")
    value: dict[str, Any] = {KEY: [KEY, 4711, 1.0, None], "b": {"c": f"<{KEY}>"}}
    clean = '{"***":["***","***",1.0,null],"b":{"c":"<***>"}}'

    assert await given(hook, value) == Result("c1", clean, data=clean)


async def test_data_without_a_secret_is_left_as_it_was() -> None:
    assert await given(redact(values=[KEY]), {"a": 1.50}) == Result(
        "c1", '{"a":1.5}', data='{"a":1.5}'
    )


async def test_a_secret_is_found_as_json_writes_it() -> None:
    value = 'p"ä\\'
    texts = ['p"ä\\', 'p\\"ä\\\\', 'p\\"\\u00e4\\\\']

    for text in texts:
        assert await given(redact(values=[value]), f"<{text}>") == Result("c1", "<[redacted]>")


async def test_a_pattern_across_fields_takes_the_data_away_where_no_json_is_left() -> None:
    hook = redact(patterns=[r'"pass":"[^"]*"'])
    value = {"pass": "hunter2", "user": "ada"}

    assert await given(hook, value) == Result("c1", '{[redacted],"user":"ada"}')


async def test_a_pattern_across_fields_leaves_data_that_is_still_json() -> None:
    hook = redact(patterns=[r"(?<=\"pass\":\")[^\"]+"])
    clean = '{"pass":"[redacted]"}'

    assert await given(hook, {"pass": "hunter2"}) == Result("c1", clean, data=clean)


async def test_data_that_another_hook_made_no_json_is_taken_away() -> None:
    def spoil(_call: object, result: Result) -> Result:
        return result._replace(data=f"{{{KEY}")

    @tool(effect=READ)
    async def show() -> int:
        """Show."""
        return 1

    hooks = [redact(values=[KEY]), Hook(after=spoil)]
    async with Executor(Toolset(show), hooks=hooks) as executor:
        assert await executor.run(Call("show", {}, "c1")) == Result("c1", "1")


async def test_parts_are_cleaned_but_not_the_bytes_in_them() -> None:
    parts = [
        Text(f"see {KEY}"),
        Image(KEY.encode()),
        File(KEY.encode(), "text/plain", f"{KEY}.txt"),
    ]

    assert await given(redact(values=[KEY]), parts) == Result(
        "c1",
        "see [redacted]",
        (
            Text("see [redacted]"),
            Image(KEY.encode()),
            File(KEY.encode(), "text/plain", "[redacted].txt"),
        ),
    )


async def test_a_failure_is_cleaned_and_so_is_its_detail() -> None:
    outcome = await given(redact(values=[KEY]), ToolFailed(f"{KEY} was not accepted."))
    broken = await given(redact(values=[KEY]), OSError(KEY))

    message = "[redacted] was not accepted."
    assert outcome == Result("c1", message, failure=Failure(FailureKind.FAILED, message))
    assert broken.failure is not None
    assert "OSError: [redacted]" in broken.failure.detail
    assert KEY not in repr(broken)


async def test_the_longest_of_two_values_is_replaced_whole() -> None:
    assert await given(redact(values=["sk", KEY]), f"{KEY} sk") == Result(
        "c1", "[redacted] [redacted]"
    )


async def test_without_anything_to_look_for_nothing_is_changed() -> None:
    assert await given(redact(), KEY) == Result("c1", KEY)


@pytest.mark.parametrize("what", [{"values": [""]}, {"patterns": ["x*"]}])
def test_what_matches_everything_is_a_mistake(what: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match="matches the empty string"):
        redact(**what)  # type: ignore[arg-type]
