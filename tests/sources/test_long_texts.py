"""Long texts of models, tools and people cost linear time, and a call's links are all found."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from handrail import (
    WRITE,
    Access,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Executor,
    Result,
    Toolset,
    tool,
)
from handrail.sources import Heard, ValueSource, describe_sources

pytestmark = pytest.mark.anyio
ADDRESS = "eve@example.net"
REPEATED = (
    "a",
    "a.",
    "a@",
    "a.b@",
    "http://",
    "a.bc/",
    "x.org/v/",
    "-.",
    ": ",
    "0 ",
    "가",
    "é.ab+",
)


@tool(effect=WRITE, touches=lambda to, **_: Access(WRITE, f"email:{to}"))
def send(to: str, body: str) -> str:
    """Send a mail."""
    return "sent"


async def find(heard: Heard, to: str, body: str) -> tuple[ValueSource, ...]:
    """Return who named each value of a mail, as a policy sees it."""
    found: list[tuple[ValueSource, ...]] = []

    def look(call: CheckedCall) -> Decision:
        found.append(call.sources)
        return Ask("Send?")

    async with Executor(Toolset(send), policy=look) as executor:
        call = Call("send", {"to": to, "body": body}, "c1")
        await executor.run_all([call], turn=executor.turn(heard=heard))
    return found[0]


def kinds(found: tuple[ValueSource, ...]) -> Iterator[tuple[str, str]]:
    return ((one.value, one.kind) for one in found)


@pytest.mark.parametrize("part", REPEATED)
async def test_a_long_text_takes_linear_time(part: str) -> None:
    """In what the call sends, what a tool has returned, and what a person has pasted."""
    text = f"{part * (100_000 // len(part))} {ADDRESS} file:{'v/' * 1000}"
    heard = Heard([text.replace(ADDRESS, "")])
    heard.add("read", {}, Result("c0", text))

    assert (ADDRESS, "read") in set(kinds(await find(heard, ADDRESS, text)))
    assert ("v", "nowhere") in set(kinds(await find(heard, "v", text)))


async def test_links_in_a_text_are_found() -> None:
    body = (
        "See https://ok.example/a/b?c=1, (http://sub.evil-site.example), mail bo+x@mail.example "
        "or me@x.example. Pay DE44500105175407324931! Version 1.2.3, e.g. a.b, is no link."
    )
    found = await find(
        Heard(["Write to ann@example.com about ok.example/a/b?c=1."]), "ann@example.com", body
    )

    assert list(kinds(found)) == [
        ("ann@example.com", "person"),
        ("https://ok.example/a/b?c=1", "person"),
        ("http://sub.evil-site.example", "nowhere"),
        ("bo+x@mail.example", "nowhere"),
        ("me@x.example", "nowhere"),
        ("DE44500105175407324931", "nowhere"),
    ]


LINKS = [f"https://example.com/{number}" for number in range(300)]


@pytest.mark.parametrize(
    ("said", "read", "asked"),
    [
        (LINKS, [], ""),
        (
            LINKS[:290],
            LINKS,
            "has https://example.com/290 and 9 more links, which are not from you.",
        ),
        (LINKS[:299], LINKS, "has https://example.com/299, which is not from you."),
        (LINKS[:250], LINKS[:270], "has https://example.com/270 and 49 more links, which are not"),
        (
            [*LINKS[:299], f"{LINKS[299]}/more"],
            [],
            "No one wrote the link https://example.com/299 in",
        ),
    ],
)
async def test_links_after_the_first_hundreds_are_looked_up_together(
    said: list[str], read: list[str], asked: str
) -> None:
    heard = Heard([" ".join(said), "Mail ann@example.com."])
    heard.add("read", {}, Result("c0", " ".join(read)))
    found = await find(heard, "ann@example.com", " ".join(LINKS))

    assert [one.kind for one in found[:201]] == ["person"] * 201
    assert len(found) == 201 + bool(asked)
    assert asked in "".join(describe_sources(found)[1:2])


async def test_many_links_take_linear_time() -> None:
    links = " ".join(f"https://a{number}.example/b" for number in range(2_000))
    heard = Heard(["Mail ann@example.com."])
    heard.add("read", {}, Result("c0", links))

    assert (await find(heard, "ann@example.com", links))[-1].title == "1799 more links"


def test_a_run_keeps_one_more_copy_of_its_texts_at_most() -> None:
    texts = [f"{part} Ask Anna{part}@X.com. " + "Word and more " * 350 for part in range(100)]
    heard = Heard()
    tracemalloc.start()
    try:
        for part, text in enumerate(texts):
            heard.add("read", "{}", Result(f"r{part}", text))
        copies = [one.text for one in heard.reads]
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert len(copies) == len(texts)
    assert 0.9 < used / sum(map(len, texts)) < 1.1
