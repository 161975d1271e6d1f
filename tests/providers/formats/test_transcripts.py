"""Every API rejects a transcript whose calls and results do not match."""

from __future__ import annotations

import pytest

from handrail import Call, FailureKind, Result
from handrail.messages import Message, Prompt, Reply, ToolResults, TruncatedCall
from providers.apis import APIS

ASK = Prompt.of("go")
TWO = Reply((Call("add", "{}", "c1"), TruncatedCall("write", "c2")), "calls")
ONE, OTHER = Result("c1", "1"), Result.fail("c2", FailureKind.FAILED, "It was cut off.")

BROKEN: list[tuple[str, list[Message], str]] = [
    ("no result at all", [ASK, TWO], "The call 'c1' of 'add' in messages[1] has no result. Add one to a ToolResults message directly after it."),
    ("a result too few", [ASK, TWO, ToolResults((ONE,))], "The call 'c2' of 'write' in messages[1] has no result. Add one to a ToolResults message directly after it."),
    ("a prompt in between", [ASK, TWO, ASK, ToolResults((ONE, OTHER))], "The call 'c1' of 'add' in messages[1] has no result. Add one to a ToolResults message directly after it."),
    ("a reply in between", [ASK, TWO, Reply(()), ToolResults((ONE, OTHER))], "The call 'c1' of 'add' in messages[1] has no result. Add one to a ToolResults message directly after it."),
    ("results in two messages", [ASK, TWO, ToolResults((ONE,)), ToolResults((OTHER,))], "The call 'c2' of 'write' in messages[1] has no result. Add one to a ToolResults message directly after it."),
    ("a result too many", [ASK, TWO, ToolResults((ONE, OTHER, Result("c3", "?")))], "messages[2] has a result for 'c3', but the reply before it has no such call. Put results directly after the reply with their calls."),
    ("a result twice", [ASK, TWO, ToolResults((ONE, OTHER, ONE))], "messages[2] has a result for 'c1', but the reply before it has no such call. Put results directly after the reply with their calls."),
    ("results without a reply", [ToolResults((ONE,))], "messages[0] has a result for 'c1', but the reply before it has no such call. Put results directly after the reply with their calls."),
    ("results twice", [ASK, TWO, ToolResults((ONE, OTHER)), ToolResults((ONE, OTHER))], "messages[3] has a result for 'c1', but the reply before it has no such call. Put results directly after the reply with their calls."),
    ("results after a prompt", [ASK, TWO, ToolResults((ONE, OTHER)), ASK, ToolResults((ONE,))], "messages[4] has a result for 'c1', but the reply before it has no such call. Put results directly after the reply with their calls."),
    ("two calls of one id", [ASK, Reply((Call("a", "{}", "c1"), Call("b", "{}", "c1"))), ToolResults((ONE,))], "Two calls in messages[1] have the id 'c1'."),
]  # fmt: skip


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("messages", "message"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_an_invalid_transcript_is_rejected_with_the_call(
    api: str, messages: list[Message], message: str
) -> None:
    with pytest.raises(ValueError) as encoding:  # noqa: PT011  the message is compared below
        APIS[api].encode_messages(messages)
    with pytest.raises(ValueError) as losing:  # noqa: PT011
        APIS[api].losses(messages)

    assert (str(encoding.value), str(losing.value)) == (message, message)


@pytest.mark.parametrize("api", APIS)
def test_results_are_sent_in_the_order_of_their_calls(api: str) -> None:
    encode = APIS[api].encode_messages

    assert encode([ASK, TWO, ToolResults((OTHER, ONE))]) == encode(
        [ASK, TWO, ToolResults((ONE, OTHER))]
    )


@pytest.mark.parametrize("api", APIS)
def test_an_empty_message_is_not_sent(api: str) -> None:
    encode = APIS[api].encode_messages
    empty: list[Message] = [Prompt(()), Prompt.of(""), Reply(()), ToolResults(()), ASK]

    assert encode(empty) == encode([ASK])
    assert APIS[api].losses(empty) == ()
