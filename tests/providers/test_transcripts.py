"""A transcript whose calls and results do not belong together is refused by every wire alike."""

from __future__ import annotations

import pytest

from handrail import Call, Kind, Result
from handrail.messages import Cut, Message, Prompt, Reply, Results
from providers.wires import WIRES

ASK = Prompt.of("go")
TWO = Reply((Call("add", "{}", "c1"), Cut("write", "c2")), "calls")
ONE, OTHER = Result("c1", "1"), Result.fail("c2", Kind.FAILED, "It was cut off.")

BROKEN: list[tuple[str, list[Message], str]] = [
    ("no result at all", [ASK, TWO], "the call 'c1' of 'add' in messages[1] has no result: it has to stand in the message right after"),
    ("a result too few", [ASK, TWO, Results((ONE,))], "the call 'c2' of 'write' in messages[1] has no result: it has to stand in the message right after"),
    ("a prompt in between", [ASK, TWO, ASK, Results((ONE, OTHER))], "the call 'c1' of 'add' in messages[1] has no result: it has to stand in the message right after"),
    ("a reply in between", [ASK, TWO, Reply(()), Results((ONE, OTHER))], "the call 'c1' of 'add' in messages[1] has no result: it has to stand in the message right after"),
    ("results in two messages", [ASK, TWO, Results((ONE,)), Results((OTHER,))], "the call 'c2' of 'write' in messages[1] has no result: it has to stand in the message right after"),
    ("a result too many", [ASK, TWO, Results((ONE, OTHER, Result("c3", "?")))], "messages[2] has a result for 'c3': no call of the reply right before it waits for one"),
    ("a result twice", [ASK, TWO, Results((ONE, OTHER, ONE))], "messages[2] has a result for 'c1': no call of the reply right before it waits for one"),
    ("results without a reply", [Results((ONE,))], "messages[0] has a result for 'c1': no call of the reply right before it waits for one"),
    ("results twice", [ASK, TWO, Results((ONE, OTHER)), Results((ONE, OTHER))], "messages[3] has a result for 'c1': no call of the reply right before it waits for one"),
    ("results after a prompt", [ASK, TWO, Results((ONE, OTHER)), ASK, Results((ONE,))], "messages[4] has a result for 'c1': no call of the reply right before it waits for one"),
    ("two calls of one id", [ASK, Reply((Call("a", "{}", "c1"), Call("b", "{}", "c1"))), Results((ONE,))], "two calls in messages[1] have the id 'c1'"),
]  # fmt: skip


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("messages", "words"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_a_broken_transcript_is_refused_and_the_call_named(
    wire: str, messages: list[Message], words: str
) -> None:
    with pytest.raises(ValueError) as encoding:  # noqa: PT011  the words are compared below
        WIRES[wire].encode_messages(messages)
    with pytest.raises(ValueError) as losing:  # noqa: PT011
        WIRES[wire].losses(messages)

    assert (str(encoding.value), str(losing.value)) == (words, words)


@pytest.mark.parametrize("wire", WIRES)
def test_results_are_sent_in_the_order_of_their_calls(wire: str) -> None:
    encode = WIRES[wire].encode_messages

    assert encode([ASK, TWO, Results((OTHER, ONE))]) == encode([ASK, TWO, Results((ONE, OTHER))])


@pytest.mark.parametrize("wire", WIRES)
def test_a_message_that_says_nothing_is_not_sent(wire: str) -> None:
    encode = WIRES[wire].encode_messages
    empty: list[Message] = [Prompt(()), Prompt.of(""), Reply(()), Results(()), ASK]

    assert encode(empty) == encode([ASK])
    assert WIRES[wire].losses(empty) == ()
