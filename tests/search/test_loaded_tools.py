"""What a conversation has found is read off its messages, and kept nowhere else."""

from __future__ import annotations

from handrail import Result
from handrail.messages import Message, Prompt, Reply, ToolResults, find_loaded_tools


def test_found_tools_are_listed_once_in_the_order_they_were_found() -> None:
    messages: list[Message] = [
        Prompt.of("Send the invoice."),
        Reply(()),
        ToolResults((Result("1", "two hits", found=("mail_send", "invoices_get")),)),
        ToolResults((Result("2", "no search"), Result("3", "x", found=("a", "mail_send")))),
    ]

    assert find_loaded_tools(messages) == ("mail_send", "invoices_get", "a")
    assert find_loaded_tools(messages[3:]) == ("a", "mail_send")
    assert find_loaded_tools([]) == ()


def test_a_result_shows_what_it_found() -> None:
    assert repr(Result("1", "x", found=("a",))) == (
        "Result(call_id='1', text='x', parts=(), data=None, failure=None, pending=None, "
        "found=('a',))"
    )
