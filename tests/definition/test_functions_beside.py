"""What `touches`, `preview` and `headline` must take is checked where the tool is defined."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from handrail import (
    WRITE,
    Access,
    Ask,
    Call,
    CheckedCall,
    Context,
    DefinitionError,
    Executor,
    Toolset,
    tool,
)
from handrail.permissions import Pending

OPTIONS = ("touches", "preview", "headline")
"""Each gets the arguments of a call, by name."""
ROOM = Access(WRITE, "room:a")


def book(room: str, hour: int = 9) -> str:
    """Book a room."""
    return f"{room} at {hour}"


def refused(option: str, fn: Any, function: Any = book) -> str:
    """The reason, without the place of the tool."""
    with pytest.raises(DefinitionError) as raised:
        tool(**{option: fn})(function)
    place, _, why = str(raised.value).partition("): ")
    assert place.startswith(f"{__name__}.")
    return why


class Desk:
    def bound(self, room: str, hour: int) -> Any:
        return Access(WRITE, f"room:{room}"[: 5 + hour])

    @classmethod
    def of_class(cls, room: str, **_: Any) -> Any:
        return Access(WRITE, f"room:{room}")

    @staticmethod
    def of_none(room: str, **_: Any) -> Any:
        return Access(WRITE, f"room:{room}")


class Callee:
    def __call__(self, room: str, *, hour: int) -> Any:
        return Access(WRITE, f"room:{room}"[: 5 + hour])


def both(room: str, hour: int) -> Any:
    return Access(WRITE, f"room:{room}"[: 5 + hour])


def with_more(desk: str, room: str, **_: Any) -> Any:
    return Access(WRITE, f"{desk}:{room}")


def before(room: str = "b", /, **_: Any) -> Any:
    return Access(WRITE, f"room:{_['room'] if room == 'b' else room}")


def own_default(room: str, hour: int, minute: int = 0) -> Any:
    return Access(WRITE, f"room:{room}"[: 5 + hour + minute])


def passes_on(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def inner(**given: Any) -> Any:
        return fn("room", **given)

    return inner


class Unreadable(Callee):
    __signature__ = "none"


ACCEPTED: dict[str, Callable[..., Any]] = {
    "each": both,
    "some": lambda room, **_: Access(WRITE, f"room:{room}"),
    "none": lambda **_: ROOM,
    "any": lambda *_, **__: ROOM,
    "own default": own_default,
    "by position or not at all": before,
    "partial": functools.partial(with_more, desk="room"),
    "partial by position": functools.partial(with_more, "room"),
    "bound": Desk().bound,
    "of a class": Desk.of_class,
    "of none": Desk.of_none,
    "object": Callee(),
    "decorated": passes_on(with_more),
    "no signature": Unreadable(),
}


@pytest.mark.parametrize("name", ACCEPTED)
async def test_what_can_be_called_with_every_argument_by_name_is_accepted_and_works(
    name: str,
) -> None:
    made = tool(touches=ACCEPTED[name])(book)
    seen: list[tuple[Access, ...]] = []

    def policy(call: CheckedCall) -> Ask:
        seen.append(call.accesses)
        return Ask("Book it?")

    await Executor(Toolset(made), policy=policy).run(Call("book", {"room": "a"}))

    assert seen == [(ROOM,)]


async def test_a_text_with_places_for_arguments_is_accepted_as_a_headline() -> None:
    shown: list[str] = []

    async def approver(pending: Pending) -> Pending:
        shown.append(pending.headline)
        return pending

    made = tool(headline="Book {room} at {hour}".format, needs_approval=True)(book)
    await Executor(Toolset(made), approvals=approver).run(Call("book", {"room": "a"}))

    assert shown == ["Book a at 9"]


def asks_for_the_context(room: str, context: Context) -> str:
    """Book a room."""
    return f"{room} {context}"


def nothing() -> None:
    """Do nothing."""


HOUR = "does not accept the parameter 'hour'. Add it, or add `**_`."
NO_PARAMETER = "which is not a parameter of the tool. Remove it, or give it a default."
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "one too few": (lambda room: room, book, HOUR),
    "none": (lambda: None, book, "does not accept the parameter 'room'. Add it, or add `**_`."),
    "only by position": (lambda *_: None, book, "does not accept the parameter 'room'. Add it, or add `**_`."),
    "one too many": (lambda room, hour, seat: (room, hour, seat), book, f"needs 'seat', {NO_PARAMETER}"),
    "one too many by name": (lambda *, seat, **_: seat, book, f"needs 'seat', {NO_PARAMETER}"),
    "another name": (lambda rooms, hour: (rooms, hour), book, f"needs 'rooms', {NO_PARAMETER}"),
    "one for none": (lambda room: room, nothing, f"needs 'room', {NO_PARAMETER}"),
    "by position": (
        lambda room, /, **_: room,
        book,
        "takes 'room' by position, but gets each argument by name. Remove the `/`, or use a lambda.",
    ),
    "built in": (
        [].append,
        book,
        "takes 'object' by position, but gets each argument by name. Remove the `/`, or use a lambda.",
    ),
    "context": (
        lambda room, context: (room, context),
        asks_for_the_context,
        "needs 'context', which only the tool itself gets. Remove it, or give it a default.",
    ),
    "an object for a function": (lambda self, **_: self, book, f"needs 'self', {NO_PARAMETER}"),
    "partial": (functools.partial(both, "a"), book, "does not accept the parameter 'room'. Add it, or add `**_`."),
    "bound": (Desk().bound, nothing, f"needs 'room', {NO_PARAMETER}"),
    "class": (Desk, book, "does not accept the parameter 'room'. Add it, or add `**_`."),
}  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_called_with_every_argument_by_name_is_refused(
    name: str, option: str
) -> None:
    fn, function, why = REFUSED[name]

    assert refused(option, fn, function) == f"`{option}` {why}"


def test_only_a_preview_may_need_the_key_of_the_call() -> None:
    def keyed(room: str, hour: int, idempotency_key: str) -> None: ...

    tool(preview=keyed)(book)
    assert refused("headline", keyed, book) == f"`headline` needs 'idempotency_key', {NO_PARAMETER}"


@pytest.mark.parametrize("option", OPTIONS)
def test_what_belongs_to_a_method_may_take_its_object(option: str) -> None:
    class Shelf:
        def put(self, name: str) -> str:
            """Put."""
            return name

    def method(self: Any, name: str) -> None: ...  # a function in the body of a class

    method.__qualname__ = "Shelf.put"

    for function in (method, classmethod(method), Shelf().put):
        tool(**{option: lambda self, name: (self, name)})(function)  # type: ignore[misc]
        tool(**{option: lambda name: name})(function)  # type: ignore[misc]
        why = refused(option, lambda self: self, function)
        assert why == f"`{option}` does not accept the parameter 'name'. Add it, or add `**_`."


async def test_a_parameter_may_have_the_name_of_an_object() -> None:
    def grade(cls: str) -> str:
        """Grade a class."""
        return cls

    made = tool(touches=lambda cls: Access(WRITE, f"class:{cls}"))(grade)
    result = await Executor(Toolset(made)).run(Call("grade", {"cls": "5b"}))

    assert result.text == "5b"


def test_a_broken_function_is_refused_before_a_model_calls_its_tool() -> None:
    """The control: these functions really fail when they are called as the executor does."""
    failed: list[str] = []
    for name, (fn, function, _) in REFUSED.items():
        arguments = {"room": "a", "hour": 9} if function is book else {}
        arguments = {"room": "a"} if function is asks_for_the_context else arguments
        try:
            fn(**arguments)
        except TypeError:
            failed.append(name)

    assert failed == [*REFUSED]
