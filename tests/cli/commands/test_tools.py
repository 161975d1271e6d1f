"""`handrail tools list | show | lint` and `handrail schema`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from cli_harness import Handrail, Schemas
from handrail import lint
from handrail.sandbox import Sandbox
from handrail.tools import Workspace, coding_tools

NOTES = '''
from typing import Literal

from handrail import DESTROY, Exposure, tool

@tool(aliases=["remember"], timeout=5, idempotent=True)
def note(text: str, place: Literal["top", "end"] = "end", tags: list[str] | None = None) -> str:
    """Write a note down.

    Use it for what is to be kept.

    Args:
        text: The note.
        place: Where it goes.
    """
    return f"{place}: {text}"

@tool(effect=DESTROY)
def clear() -> str:
    """Throw all notes away."""
    return "gone"

@tool(exposure=Exposure.HIDDEN)
def inner() -> str:
    """Not for models."""
    return ""
'''


@pytest.fixture
def notes(handrail: Handrail) -> Handrail:
    handrail.write("notes.py", NOTES)
    return handrail


def test_list_shows_name_effect_and_the_first_line_of_each_tool(notes: Handrail) -> None:
    ran = notes("tools", "list", "-t", "notes.py")

    assert ran == (
        0,
        "clear  destroy  Throw all notes away.\nnote   write    Write a note down.\n",
        "",
    )


def test_a_list_is_a_document_or_lines_for_programs(notes: Handrail, schema: Schemas) -> None:
    whole = schema("tools-list", notes("tools", "list", "-t", "notes.py", "--json").json)
    lines = notes("tools", "list", "-t", "notes.py", "-o", "jsonl").lines

    assert whole == {"tools": [schema("tools-list", one, part="line") for one in lines]}
    assert lines[0] == {
        "name": "clear",
        "effect": "destroy",
        "exposure": "direct",
        "description": "Throw all notes away.",
    }


def test_the_coding_tools_are_listed_as_they_are(handrail: Handrail, schema: Schemas) -> None:
    listed = schema("tools-list", handrail("tools", "list", "--json").json)
    sandbox = Sandbox(handrail.workspace, opened=list)

    assert listed["tools"] == [
        {
            "name": one.name,
            "effect": one.effect.name.lower(),
            "exposure": one.exposure.value,
            "description": one.description,
        }
        for one in coding_tools(Workspace(handrail.workspace), sandbox=sandbox).specs
    ]


def test_tools_that_are_left_out_are_not_there(notes: Handrail) -> None:
    both = ["-t", "coding", "-t", "notes.py"]

    def names(*more: str) -> list[str]:
        return [one["name"] for one in notes("tools", "list", "--json", *more).json["tools"]]

    assert names(*both, "--without", "remember") == [
        one for one in names(*both) if one != "note"
    ]  # by its alias
    assert names("--without", "bash") == [
        one for one in names() if one not in {"bash", "read_job", "stop_job"}
    ]
    assert names("--without", "edit", "--without", "read_job", "--without", "bash") == [
        one for one in names("--without", "bash") if one != "edit"
    ]


def test_a_name_that_leaves_nothing_out_is_told(notes: Handrail) -> None:
    assert notes("tools", "list", "--without", "raed").err == (
        "`without` names an unknown tool 'raed'; did you mean 'read'?\n"
    )
    assert notes("tools", "list", "-t", "notes.py", "--without", "noted").err == (
        "`without` names an unknown tool 'noted'; did you mean 'note'?\n"
    )
    for right in ("read", "read_job", "web_fetch", "quite_another"):  # the last is nobody's
        assert notes("tools", "list", "--without", right).err == ""


def test_searches_pass_over_what_the_rules_deny_reading(handrail: Handrail) -> None:
    handrail.write("secret.txt", "needle\n")
    handrail.write("open.txt", "needle\n")
    grep = ("tools", "call", "grep", "pattern=needle", "output_mode=files")
    assert sorted(handrail(*grep).out.split()[:2]) == ["open.txt", "secret.txt"]

    handrail.config.mkdir(parents=True)
    (handrail.config / "rules.toml").write_text(
        '[[rule]]\ndecide = "deny"\naccess = ["read file:secret.txt"]\nreason = "no"\n',
        encoding="utf-8",
    )
    assert "secret.txt" not in handrail(*grep).out
    assert "open.txt" in handrail(*grep).out


def test_no_tools_are_said_to_be_none(notes: Handrail) -> None:
    only = ["tools", "list", "-t", "notes.py:clear", "--without", "clear"]

    assert notes(*only) == (0, "no tools\n", "")
    assert notes(*only, "--json").json == {"tools": []}


def test_without_a_sandbox_bash_is_left_out_and_that_is_said(handrail: Handrail) -> None:
    ran = handrail("tools", "list", "--json", "-C", "/")  # no sandbox is around all there is
    names = [one["name"] for one in handrail("tools", "list", "--json").json["tools"]]

    assert ran.err == ""
    assert [one["name"] for one in ran.json["tools"]] == [
        one for one in names if one not in {"bash", "read_job", "stop_job"}
    ]
    assert handrail("tools", "show", "read_job", "-C", "/").exit == 2


def test_hosts_that_are_none_are_refused(handrail: Handrail) -> None:
    ran = handrail("tools", "show", "bash", "--allow-host", "http://x", "--json")

    assert (ran.exit, ran.error) == (
        2,
        {
            "code": "config",
            "message": "--allow-host: The host 'http://x' is not valid. 'http://x' cannot be part of a "
            "host name.",
            "hint": "write a host name such as `pypi.org` or `*.example.org`",
            "exit": 2,
        },
    )
    assert handrail("tools", "show", "bash", "--allow-host", "example.org").exit == 0


def test_show_tells_what_a_model_is_told(notes: Handrail) -> None:
    ran = notes("tools", "show", "note", "-t", "notes.py")

    assert (ran.exit, ran.err) == (0, "")
    assert ran.out.replace(str(notes.workspace), "WS") == snapshot("""\
note
  effect      write
  exposure    direct
  aliases     remember
  tokens      about 105
  idempotent  yes
  timeout     5 seconds
  from        WS/notes.py.note (WS/notes.py:6)

  Write a note down.

  Use it for what is to be kept.

parameters
  text  string, required
      The note.
  place  "top" | "end", default "end"
      Where it goes.
  tags  array of string | null, default null
""")


def test_show_gives_the_whole_spec_to_programs(notes: Handrail, schema: Schemas) -> None:
    told = schema("tools-show", notes("tools", "show", "remember", "-t", "notes.py", "--json").json)

    assert told | {"origin": ""} == snapshot(
        {
            "name": "note",
            "description": """\
Write a note down.

Use it for what is to be kept.\
""",
            "effect": "write",
            "exposure": "direct",
            "aliases": ["remember"],
            "tokens": 105,
            "idempotent": True,
            "timeout": 5,
            "max_chars": None,
            "strict": "auto",
            "tags": [],
            "examples": [],
            "input_schema": {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "description": "The note."},
                    "place": {
                        "type": "string",
                        "description": "Where it goes.",
                        "enum": ["top", "end"],
                        "default": "end",
                    },
                    "tags": {
                        "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                        "default": None,
                    },
                },
                "required": ["text"],
                "additionalProperties": False,
            },
            "output_schema": None,
            "origin": "",
        }
    )
    assert str(notes.workspace / "notes.py") in told["origin"]
    assert notes("tools", "show", "clear", "-t", "notes.py").out.count("no parameters") == 1


def test_every_coding_tool_can_be_shown(handrail: Handrail, schema: Schemas) -> None:
    for one in handrail("tools", "list", "--json").json["tools"]:
        shown = schema("tools-show", handrail("tools", "show", one["name"], "--json").json)
        assert shown.items() >= one.items()


@pytest.mark.parametrize("kind", ["anthropic", "openai-chat", "openai-responses", "gemini"])
def test_a_tool_goes_over_every_wire(handrail: Handrail, schema: Schemas, kind: str) -> None:
    told = schema("schema", handrail("schema", "grep", "--api", kind, "--json").json)

    assert (told["tool"], told["api"]) == ("grep", kind)
    assert "Search file contents with a regular expression" in json.dumps(told["wire"])


def test_show_names_types_in_a_word_or_two(handrail: Handrail) -> None:
    handrail.write(
        "kinds.py",
        "from typing import Any\nfrom handrail import tool, Tool, Spec\n"
        "async def send(args, context): return ''\n"
        "shape = {'type': 'object', '$defs': {'Point': {'type': 'object'}}, 'properties': {"
        "'a': {'type': 'array', 'items': {'type': 'integer'}}, 'b': {'$ref': '#/$defs/Point'}, "
        "'c': {}, 'd': {'anyOf': [{'type': 'string'}, {'type': 'null'}]}, 'e': {'type': 'array'}, "
        "'f': {'type': ['string', 'null']}, 'g': True, 'h': {'anyOf': [True]}}}\n"
        "odd = Tool.remote(Spec(name='odd', description='', input_schema=shape), send)\n",
    )

    assert handrail("tools", "show", "odd", "-t", "kinds.py").out.partition("\n\n")[2] == snapshot(
        """\
  no description

parameters
  a  array of integer
  b  Point
  c  anything
  d  string | null
  e  array
  f  string | null
  g  anything
  h  anything
"""
    )


def test_what_a_description_hides_is_written_out(handrail: Handrail) -> None:
    handrail.write(
        "sly.py",
        "from handrail import tool\n@tool\ndef sly() -> str:\n"
        '    """Harmless\\x1b[2K.\\u202e"""\n    return ""\n',
    )

    listed = handrail("tools", "list", "-t", "sly.py").out
    shown = handrail("tools", "show", "sly", "-t", "sly.py").out
    assert listed == "sly  write  Harmless\\u{1B}[2K.\\u{202E}\n"
    assert "\x1b" not in shown
    assert "\\u{1B}" in shown


def test_an_unknown_tool_is_an_error_with_what_may_be_meant(notes: Handrail) -> None:
    def told(*arguments: str) -> tuple[int, str, str]:
        ran = notes("tools", "show", *arguments, "--json")
        return ran.exit, ran.error["message"], ran.error["hint"]

    assert told("raed") == (2, "there is no tool 'raed'", "did you mean read?")
    assert told("zzz") == (
        2,
        "there is no tool 'zzz'",
        "run `handrail tools list` to see the tools",
    )
    assert told("edit", "--without", "edit") == (
        2,
        "the tool 'edit' is excluded by --without",
        "remove 'edit' from `without`",
    )


def test_two_tools_of_one_name_are_refused(notes: Handrail) -> None:
    notes.write("more.py", NOTES)
    ran = notes("tools", "list", "-t", "notes.py", "-t", "more.py", "--json")

    assert (ran.exit, ran.error["code"], ran.error["hint"]) == (
        2,
        "tools",
        "rename one of them, or remove its source from `--tools`",
    )
    assert "Two tools claim the name" in ran.error["message"]


def test_lint_finds_what_to_mend_and_what_wires_lose(notes: Handrail, schema: Schemas) -> None:
    ran = notes("tools", "lint", "-t", "notes.py")

    assert ran == (
        1,
        snapshot("""\
note: parameter 'tags' has no description: add it to the docstring's `Args:` [no-parameter-description]
note: place: default: "end" [gemini lost]
"""),
        "",
    )
    told = schema("tools-lint", notes("tools", "lint", "-t", "notes.py", "--json").json)
    assert [(one["tool"], one["rule"]) for one in told["findings"]] == [
        ("note", "no-parameter-description")
    ]


def test_lint_looks_at_one_provider_or_at_all(notes: Handrail) -> None:
    def apis(*more: str) -> set[str]:
        told = notes("tools", "lint", "--json", *more).json
        return {one["api"] for one in told["losses"]}

    assert apis("--api", "anthropic") == {"anthropic"}
    assert apis("--api", "gemini") == {"gemini"}
    assert apis() == {"anthropic", "gemini", "openai-chat", "openai-responses"}


def test_the_coding_tools_have_no_problems(handrail: Handrail) -> None:
    ran = handrail("tools", "lint", "--api", "anthropic")

    losses = """\
bash: timeout_ms: default: 120000 [anthropic lost]
read: offset: default: 1 [anthropic lost]
read: limit: default: 2000 [anthropic lost]
"""
    assert ran == (0, losses, "no problems in 9 tools\n")
    assert lint(coding_tools(Workspace(handrail.workspace))) == ()


def test_a_tool_that_cannot_be_sent_is_a_finding(handrail: Handrail, schema: Schemas) -> None:
    handrail.write(
        "endless.py",
        "from handrail import Spec, Tool\nasync def send(args, context): return ''\n"
        "shape = {'type': 'object', 'properties': {'a': {'$ref': '#/$defs/Gone', "
        "'description': 'A.'}}}\n"
        "lost = Tool.remote(Spec(name='find_it', description='It.', input_schema=shape), send)\n",
    )
    told = schema("tools-lint", handrail("tools", "lint", "-t", "endless.py", "--json").json)
    refused = handrail("schema", "find_it", "-t", "endless.py", "--json")

    assert handrail("tools", "lint", "-t", "endless.py").exit == 1
    assert {(one["api"], one["rule"]) for one in told["findings"]} == {
        (one, "unsupported") for one in ("anthropic", "openai-chat", "openai-responses", "gemini")
    }
    assert (refused.exit, refused.out, refused.error["code"]) == (1, "", "unsupported")


def test_schema_prints_the_wire_on_stdout_and_losses_on_stderr(
    notes: Handrail, schema: Schemas
) -> None:
    ran = notes("tools", "schema", "note", "-t", "notes.py", "--api", "gemini")
    told = schema(
        "schema",
        notes("schema", "note", "-t", "notes.py", "--api", "gemini", "--json").json,
    )

    assert json.loads(ran.out) == told["wire"]
    assert ran.err == "".join(f"lost: {one}\n" for one in told["losses"]) != ""
    assert (told["tool"], told["api"]) == ("note", "gemini")
    assert notes("schema", "note", "-t", "notes.py").json["input_schema"]["type"] == "object"


def test_the_tokens_shown_are_those_that_lint_counts(handrail: Handrail) -> None:
    words = "word " * 2_000
    handrail.write(
        "dear.py",
        f'from handrail import tool\n@tool\ndef dear_one() -> str:\n    """{words}"""\n'
        '    return ""\n',
    )
    found = handrail("tools", "lint", "-t", "dear.py").out
    tokens = handrail("tools", "show", "dear_one", "-t", "dear.py", "--json").json["tokens"]

    assert f"it costs about {tokens} tokens in every request" in found


def test_a_workspace_is_where_c_says(handrail: Handrail, tmp_path: Path) -> None:
    there = tmp_path / "elsewhere"
    there.mkdir()
    (there / "notes.py").write_text(NOTES, encoding="utf-8")

    assert handrail("tools", "list", "-C", str(there), "-t", "notes.py").exit == 0
    assert handrail("tools", "list", "-t", "notes.py").exit == 2
    assert os.listdir(handrail.workspace) == []  # noqa: PTH208  nothing was written


@pytest.mark.parametrize("without", [[], ["--without", "web_fetch"]])
def test_a_tool_that_needs_an_extra_is_named(
    handrail: Handrail, monkeypatch: pytest.MonkeyPatch, without: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "html_to_markdown", None)
    ran = handrail("tools", "call", "glob", "pattern=*", *without)
    named = "the tool web_fetch is not available: pip install 'handrail[web]'\n"

    assert (ran.exit, ran.err.count(named)) == (0, 0 if without else 1)
