"""Cookies that a browser keeps and cannot change."""

from __future__ import annotations

from dataclasses import replace

from handrail.net.cookies import SignedCookie, sign


def test_a_cookie_is_read_by_its_own_name_key_and_time_only() -> None:
    now = [1_000.0]
    cookie = SignedCookie(name="a", path="/p/", key=b"k" * 32, clock=lambda: now[0], seconds=60)
    header = cookie.make("one", "zw\u00f6lf; \u202e")
    value = header.partition(";")[0].removeprefix("a=")

    assert header == f"a={value}; Path=/p/; HttpOnly; SameSite=Strict"
    assert cookie.read({"a": value}) == ["one", "zw\u00f6lf; \u202e"]
    assert replace(cookie, name="b").read({"b": value}) == []
    assert replace(cookie, key=b"o" * 32).read({"a": value}) == []
    for wrong in ("", ".", value[:-1], f"x{value}", value.replace(".", ""), "\u00e9.\u00e9"):
        assert cookie.read({"a": wrong}) == []
    assert cookie.read({}) == []
    seen = list[int]()
    for now[0] in (969.0, 970.0, 1_059.0, 1_060.0):
        seen.append(len(cookie.read({"a": value})))
    assert seen == [0, 2, 2, 0]  # the clock of another machine may be a little behind
    assert cookie.end() == "a=; Path=/p/; HttpOnly; SameSite=Strict; Max-Age=0"
    assert "kkk" not in repr(cookie)


def test_texts_that_are_divided_otherwise_have_another_signature() -> None:
    key = b"k" * 32
    signed = {sign(key, *parts) for parts in (("a", "b"), ("ab",), ("a", "b", ""), ("b", "a"))}

    assert len(signed) == 4
