"""Names: which are refused, how each fits every provider, and that no two become one."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from handrail import DefinitionError, Spec, Tool, Toolset

EVERY_PROVIDER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def named(*names: str) -> Toolset:
    return Toolset(
        *(Tool.remote(Spec(name=name, description="", input_schema={}), _nowhere) for name in names)
    )


async def _nowhere(_args: object, _context: object) -> None: ...


WIRE_NAMES = {
    "add": "add",
    "get_user": "get_user",
    "get-user": "get-user",
    "_private": "_private",
    "read file": "read_u20_file",
    "fs.read": "fs_u2e_read",
    "fs/read": "fs_u2f_read",
    "2fast": "_u32_fast",
    "-v": "_u2d_v",
    "größe": "gr_uf6__udf_e",
    "a_u2e_b": "a_u5f_u2e_b",
    "get_user.name": "get_u5f_user_u2e_name",
    "x" * 64: "x" * 64,
    "x" * 65: "x" * 45 + "_h_9537c5fdf120482f",
    "server.with/a very long name " * 4
    + "end": "server_with_a_very_long_name_server_with_a_ve_h_4389ebba53263cb8",
    "name_h_0123456789abcdef": "name_h_0123456789abcdef_h_2acc4801168be974",
}


@pytest.mark.parametrize("name", WIRE_NAMES)
def test_a_name_fits_every_provider(name: str) -> None:
    assert named(name).api_names == {WIRE_NAMES[name]: name}


printable = st.text(
    st.sampled_from("u_h-./ 2ea" + string.hexdigits[:3] + "é") | st.characters(),
    min_size=1,
    max_size=80,
).filter(lambda name: name.isprintable() and name == name.strip())


@given(printable, printable)
def test_different_names_stay_different_on_the_wire(one: str, other: str) -> None:
    assume(one != other)

    wire = named(one, other).api_names

    assert set(wire.values()) == {one, other}
    assert all(EVERY_PROVIDER.fullmatch(sent) for sent in wire)


@given(printable)
def test_a_wire_name_is_no_other_names_wire_name(name: str) -> None:
    [sent] = named(name).api_names
    assume(sent != name)

    assert set(named(name, sent).api_names.values()) == {name, sent}


def test_the_test_above_catches_an_encoding_that_only_replaces() -> None:
    def weak(name: str) -> str:
        return re.sub(r"[^A-Za-z0-9_-]", "_", name)

    assert weak("read file") == weak("read_file")


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "a\0", "x" * 257, "a\u202eb"])
def test_a_name_that_cannot_be_told_apart_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError, match=r"is not a valid tool name\. Use 1 to 256 printable"):
        named(name)
