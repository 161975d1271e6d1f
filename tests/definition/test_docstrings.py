"""What a docstring tells a model: the description, and a line for each parameter."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from handrail import Context, tool

Told = tuple[str, dict[str, str]]


def told(fn: Any) -> Told:
    """A tool's description, and those of its parameters that have one."""
    spec = tool(fn).spec
    properties = spec.input_schema["properties"].items()
    return spec.description, {
        name: schema["description"] for name, schema in properties if "description" in schema
    }


# ---------------------------------------------------------------- three styles, one meaning


def google(path: str, lines: int = 10, *, strict: bool = False) -> str:
    """Read the head of a file.

    Use it before you read a whole file,
    since that may be long.

    Args:
        path: Which file, relative
            to the workspace.
        lines: How many lines.
        strict: Whether a missing file
            is an error.

            It is none by default.

    Returns:
        The lines as they are.

    Raises:
        OSError: If the file cannot be read.
    """
    return ""


def google_with_types(path: str, lines: int = 10, *, strict: bool = False) -> str:
    """Read the head of a file.

    Use it before you read a whole file,
    since that may be long.

    Arguments:
        path (str): Which file, relative to the workspace.
        lines (int, optional): How many lines.
        strict (bool): Whether a missing file is an error. It is none by default.

    Returns:
        The lines as they are.
    """
    return ""


def numpy(path: str, lines: int = 10, *, strict: bool = False) -> str:
    """Read the head of a file.

    Use it before you read a whole file,
    since that may be long.

    Parameters
    ----------
    path : str
        Which file, relative
        to the workspace.
    lines : int, optional
        How many lines.
    strict : bool, default: False
        Whether a missing file is an error.

        It is none by default.

    Returns
    -------
    str
        The lines as they are.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    return ""


def sphinx(path: str, lines: int = 10, *, strict: bool = False) -> str:
    """Read the head of a file.

    Use it before you read a whole file,
    since that may be long.

    :param path: Which file, relative
        to the workspace.
    :type path: str
    :param int lines: How many lines.
    :param strict: Whether a missing file is an error. It is none by default.
    :type strict: bool
    :returns: The lines as they are.
    :rtype: str
    :raises OSError: If the file cannot be read.
    """
    return ""


@pytest.mark.parametrize(
    "fn", [google, google_with_types, numpy, sphinx], ids=lambda fn: fn.__name__
)
def test_every_style_says_the_same(fn: Any) -> None:
    assert told(fn) == (
        (
            "Read the head of a file.\n\n"
            "Use it before you read a whole file,\nsince that may be long.\n\n"
            "Returns: The lines as they are."
        ),
        {
            "path": "Which file, relative to the workspace.",
            "lines": "How many lines.",
            "strict": "Whether a missing file is an error. It is none by default.",
        },
    )


# ---------------------------------------------------------------- other sections


def google_sections(a: int, b: int = 0, c: int = 0) -> int:
    """Add numbers.

    Args:
        a: The first.

    Keyword Args:
        b: The second.

    Other Parameters:
        c: The third.

    Note:
        Slow for large numbers.

    Warning:
        Never ask it for secrets.

    Examples:
        >>> google_sections(1, 2)
        3

    Raises:
        OverflowError: If the sum is too large.

    Ask again if it fails.
    """
    return a + b + c


def numpy_sections(a: int, b: int = 0, c: int = 0) -> int:
    """Add numbers.

    Parameters
    ----------
    a, b : int
        One of two.

    Other Parameters
    ----------------
    c : int
        The third.

    Notes
    -----
    Slow for large numbers.

    Warnings
    --------
    Never ask it for secrets.

    Examples
    --------
    >>> numpy_sections(1, 2)
    3
    """
    return a + b + c


def google_warnings(a: int) -> int:
    """Add one.

    Args:
        a: The number.

    Warnings:
        Never ask it for secrets.
    """
    return a + 1


def two_returns(a: int) -> tuple[int, str]:
    """Halve a number.

    Args:
        a: The number.

    Returns:
        half (int): The half.
        rest (str): What is left.
    """
    return a // 2, str(a % 2)


def titled_note(a: int) -> None:
    """Add one.

    Args:
        a: The number.

    Note: In a hurry
        Call it twice.
    """


SECTIONS = [
    (
        google_sections,
        (
            "Add numbers.\n\n"
            "Note: Slow for large numbers.\n\n"
            "Warning: Never ask it for secrets.\n\n"
            "Examples:\n>>> google_sections(1, 2)\n3\n\n"
            "Ask again if it fails."
        ),
        {"a": "The first.", "b": "The second.", "c": "The third."},
    ),
    (
        numpy_sections,
        (
            "Add numbers.\n\n"
            "Note: Slow for large numbers.\n\n"
            "Warning: Never ask it for secrets.\n\n"
            "Examples:\n>>> numpy_sections(1, 2)\n3"
        ),
        {"a": "One of two.", "b": "One of two.", "c": "The third."},
    ),
    (
        google_warnings,
        "Add one.\n\nWarning: Never ask it for secrets.",
        {"a": "The number."},
    ),
    (
        two_returns,
        "Halve a number.\n\nReturns: half: The half. rest: What is left.",
        {"a": "The number."},
    ),
    (titled_note, "Add one.\n\nNote: In a hurry. Call it twice.", {"a": "The number."}),
]


@pytest.mark.parametrize(
    ("fn", "description", "parameters"), SECTIONS, ids=[fn.__name__ for fn, _, _ in SECTIONS]
)
def test_what_helps_a_model_is_kept_and_what_is_raised_is_not(
    fn: Any, description: str, parameters: dict[str, str]
) -> None:
    assert told(fn) == (description, parameters)


# ---------------------------------------------------------------- few words, or none


def no_docstring(a: int) -> None: ...


def blank_docstring(a: int) -> None: ...


blank_docstring.__doc__ = "   \n\n    "


def one_line(a: int) -> None:
    """Add one."""


def no_sections(a: int) -> None:
    """Add one.

    Mind these:
        - it is slow;
        - it is: right.

    Second paragraph, see :mod:`math`.
    """


def only_parameters(a: int) -> None:
    """
    Args:
        a: The number.
    """


def no_words_for_some(a: int, b: int) -> None:
    """Add two.

    Args:
        b: The second.
    """


def words_for_nobody(a: int) -> None:
    """Add one.

    Args:
        a: The number.
        gone: A parameter that was there once.
    """


def section_in_a_code_block(a: int) -> None:
    """Add one.

    ```
    Args:
        a: Not this.
    ```
    """


SMALL: list[tuple[Any, str, dict[str, str]]] = [
    (no_docstring, "", {}),
    (blank_docstring, "", {}),
    (one_line, "Add one.", {}),
    (
        no_sections,
        (
            "Add one.\n\nMind these:\n    - it is slow;\n    - it is: right.\n\n"
            "Second paragraph, see :mod:`math`."
        ),
        {},
    ),
    (only_parameters, "", {"a": "The number."}),
    (no_words_for_some, "Add two.", {"b": "The second."}),
    (words_for_nobody, "Add one.", {"a": "The number."}),
    (section_in_a_code_block, "Add one.\n\n```\nArgs:\n    a: Not this.\n```", {}),
]


@pytest.mark.parametrize(
    ("fn", "description", "parameters"), SMALL, ids=[fn.__name__ for fn, _, _ in SMALL]
)
def test_a_docstring_is_told_as_far_as_it_goes(
    fn: Any, description: str, parameters: dict[str, str]
) -> None:
    assert told(fn) == (description, parameters)


# ---------------------------------------------------------------- who has the last word


class Point(BaseModel):
    """A place on the map."""

    x: int = Field(description="East of the origin.")


@dataclass
class Size:
    """How large it is."""

    width: int


@dataclass
class Plain:
    width: int


def test_a_field_has_the_last_word_over_the_docstring() -> None:
    def move(
        a: Annotated[int, Field(description="From the field.")],
        b: Annotated[int, Field(ge=0)],
        c: Annotated[Point, Field(description="From the field.")],
    ) -> None:
        """Move it.

        Args:
            a: From the docstring.
            b: From the docstring.
            c: From the docstring.
        """

    assert told(move) == (
        "Move it.",
        {"a": "From the field.", "b": "From the docstring.", "c": "From the field."},
    )


def test_the_docstring_has_the_last_word_over_that_of_a_type() -> None:
    def draw(point: Point, size: Size, plain: Plain) -> None:
        """Draw it.

        Args:
            point: Where to start.
        """

    assert told(draw) == (
        "Draw it.",
        {"point": "Where to start.", "size": "How large it is."},
    )


def test_an_option_has_the_last_word_over_the_docstring() -> None:
    def add(a: int) -> None:
        """Add one.

        Args:
            a: The number.
        """

    spec = tool(description="Count up.")(add).spec

    assert spec.description == "Count up."
    assert spec.input_schema["properties"] == {
        "a": {"type": "integer", "description": "The number."}
    }


def test_a_context_is_described_to_nobody() -> None:
    def add(a: int, context: Context) -> None:
        """Add one.

        Args:
            a: The number.
            context: Who asks.
        """

    assert told(add) == ("Add one.", {"a": "The number."})


def test_a_method_is_described_by_its_docstring() -> None:
    class Notes:
        @tool
        def add(self, text: str) -> None:
            """Add a note.

            Args:
                text: What it says.
            """

    spec = Notes().add.spec

    assert spec.description == "Add a note."
    assert spec.input_schema["properties"] == {
        "text": {"type": "string", "description": "What it says."}
    }


# ---------------------------------------------------------------- the control


def test_the_docstring_as_it_stands_would_repeat_the_parameters_in_the_description() -> None:
    """The weak variant: all of the docstring as description, none of it beside a parameter."""
    assert "Args:" in (google.__doc__ or "")
    assert "Args:" not in told(google)[0]


# ------------------------------------------------- the most usual form is read without griffe

PLAIN = [
    "Read.\n\n    Args:\n        path: Which file.\n        lines: How many: ten.\n    ",
    "Read.\n\n    More\n    text.\n\n    Twice.\n\n    Args:\n        path: Which file,\n            or a folder.\n    ",
    "Read.\n\n    Args:\n        lines: Many.\n        path:   A `file:line`.\n          And more.",
    "Read.\n\n    Args:\n        path: Which file.\x0c    also: No argument, as only a line feed ends a line.",
]


@pytest.mark.parametrize("doc", PLAIN)
def test_arguments_mean_the_same_with_types_and_without(doc: str) -> None:
    def read(path: str, lines: int = 1) -> str:
        return f"{path}{lines}"

    def described(text: str) -> Told:
        read.__doc__ = text
        return told(read)

    typed = doc.replace("path:", "path (str):").replace("lines:", "lines (int):")
    assert described(doc) == described(typed)
    assert described(doc) != described(doc.replace("Read", "Write"))
    assert set(described(doc)[1]) == {"path", "lines"} & set(re.findall(r"\w+(?=:)", doc))


def test_a_usual_docstring_does_not_load_griffe() -> None:
    code = """
import sys
from handrail import tool

def read(path: str) -> str:
    '''Read.

    Args:
        path: {}Which file.
    '''

tool(read)
print("griffe" in sys.modules)
"""
    said = [
        subprocess.run(  # noqa: S603  our own interpreter
            [sys.executable, "-c", code.format(end)], capture_output=True, check=True
        )
        for end in ("", "x\n\n    ")
    ]
    assert [one.stdout for one in said] == [b"False\n", b"True\n"]
