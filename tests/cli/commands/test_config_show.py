"""`handrail config show`: every setting, its value, and who said so."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from cli_harness import Handrail, Ran, Schemas
from handrail.policy import RulePaths, Trust, digest


def trust(handrail: Handrail, name: str, text: str) -> None:
    """Write a file of the workspace, and have it trusted."""
    file = handrail.write(name, text)
    kept = RulePaths.of(handrail.workspace, config=handrail.config).trust
    assert kept is not None
    Trust(kept).grant(file, digest(file.read_bytes()))


def test_without_any_file_the_built_in_settings_count(handrail: Handrail) -> None:
    assert handrail("config", "show") == snapshot(
        Ran(
            exit=0,
            out="""\
tools               ["coding"]
without             []
programs            false
mode                not set
allowed_hosts       []
model               not set
base_url            not set
key_variable        not set
system              ""
hooks               {}
unsandboxed_hooks   false
database            ""
codec               ""
theme               "auto"
model_tries         1
max_tokens          not set
max_turns           50
max_calls           not set
max_total_tokens    not set
max_seconds         not set
max_cost_per_day    not set
max_cost_per_month  not set
""",
            err="",
        )
    )


def test_each_level_wins_over_those_below(handrail: Handrail) -> None:
    handrail.config.mkdir(parents=True, mode=0o700)
    (handrail.config / "config.toml").write_text(
        'model = "openai:a"\nmax_turns = 1\nmax_calls = 1\nmax_total_tokens = 1\nmax_tokens = 1\n',
        encoding="utf-8",
    )
    trust(handrail, "handrail.toml", "# ours\nmax_turns = 2\nmax_calls = 2\nmax_total_tokens = 2\n")
    trust(handrail, ".handrail/local.toml", "\n\nmax_turns = 3\nmax_calls = 3\n")

    ran = handrail(
        "config", "show", "--origin", "--max-turns", "5", env={"HANDRAIL_MAX_CALLS": "4"}
    )

    assert (ran.exit, ran.err) == (0, "")
    assert ran.out.replace(str(handrail.folder), "~") == snapshot("""\
tools               ["coding"]  default
without             []          default
programs            false       default
mode                not set     default
allowed_hosts       []          default
model               "openai:a"  user         ~/config/handrail/config.toml:1
base_url            not set     default
key_variable        not set     default
system              ""          default
hooks               {}          default
unsandboxed_hooks   false       default
database            ""          default
codec               ""          default
theme               "auto"      default
model_tries         1           environment  HANDRAIL_MODEL_TRIES
max_tokens          1           user         ~/config/handrail/config.toml:5
max_turns           5           flag         --max-turns
max_calls           4           environment  HANDRAIL_MAX_CALLS
max_total_tokens    2           project      ~/ws/handrail.toml:4
max_seconds         not set     default
max_cost_per_day    not set     default
max_cost_per_month  not set     default

local    found      ~/ws/.handrail/local.toml
project  found      ~/ws/handrail.toml
user     found      ~/config/handrail/config.toml
system   not found  /etc/handrail/config.toml
""")


def test_what_is_not_trusted_is_said_and_does_not_count(
    handrail: Handrail, schema: Schemas
) -> None:
    file = handrail.write("handrail.toml", 'mode = "open"\n')

    ran = handrail("config", "show", "--json")

    told = schema("config-show", ran.json)
    assert ran.err == f"{told['problems'][0]}\n"
    assert told["problems"] == [
        (
            f"ignoring {file}: not trusted, or changed since you trusted it; "
            "review it with `handrail trust`"
        )
    ]
    assert told["settings"][3] == {
        "name": "mode",
        "value": None,
        "level": "default",
        "where": "",
    }
    assert [one["exists"] for one in told["files"]] == [False, True, False, False]


def test_as_lines_each_setting_is_one(handrail: Handrail, schema: Schemas) -> None:
    lines = handrail(
        "config", "show", "-o", "jsonl", "--allow-host", "a", "--allow-host", "b"
    ).lines

    assert [schema("config-show", one, part="line") for one in lines][4] == {
        "name": "allowed_hosts",
        "value": ["a", "b"],
        "level": "flag",
        "where": "--allow-host",
    }
    assert (
        lines
        == handrail("config", "show", "--json", "--allow-host", "a", "--allow-host", "b").json[
            "settings"
        ]
    )


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://me:pw@host:8080/v1", "https://***@host:8080/v1"),
        ("https://p@w@host/", "https://***@host/"),
        ("http://host/v1?api_key=abc&x=1#y", "http://host/v1?api_key=***&x=1#y"),
        ("http://host/v1?x=1&TOKEN=abc", "http://host/v1?x=1&TOKEN=***"),
        ("http://host/@name", "http://host/@name"),
        ("no address", "no address"),
    ],
)
def test_a_login_or_a_key_in_an_address_is_not_shown(
    handrail: Handrail, address: str, shown: str
) -> None:
    env = {"HANDRAIL_BASE_URL": address}

    words = handrail("config", "show", "--origin", env=env).out
    told = handrail("config", "show", "--json", env=env)

    assert told.json["settings"][6]["value"] == shown
    assert f'base_url            "{shown}"  environment  HANDRAIL_BASE_URL' in words
    if shown != address:
        assert address not in words + told.out


def test_what_a_file_says_cannot_write_to_the_terminal(handrail: Handrail) -> None:
    ran = handrail("config", "show", env={"HANDRAIL_SYSTEM": "\x1b[2J\x9b2J\u202e"})

    assert "\x1b" not in ran.out
    assert "\x9b" not in ran.out
    assert "\u202e" not in ran.out


def test_a_setting_that_cannot_be_read_is_an_error(handrail: Handrail) -> None:
    ran = handrail("config", "show", env={"HANDRAIL_MAX_TURNS": "many"})

    assert ran == Ran(
        2,
        "",
        'handrail: `HANDRAIL_MAX_TURNS` must be an integer of at least 1, got "many"\n  set a valid '
        "value, as in `export HANDRAIL_MAX_TURNS=50`, or `unset HANDRAIL_MAX_TURNS`\n",
    )


@pytest.mark.parametrize("given", ["nan", "inf", "1e999", "-inf", "0"])
def test_seconds_are_a_number(handrail: Handrail, given: str) -> None:
    ran = handrail("config", "show", "--json", "--max-seconds", given)

    assert (ran.exit, ran.out, ran.error["code"]) == (2, "", "usage")
    assert ran.error["message"].startswith("invalid value for '--max-seconds': ")
    shown = handrail("config", "show", "--max-seconds", "2.5").out
    assert "max_seconds         2.5" in shown.splitlines()


def test_a_login_is_not_shown_where_the_scheme_is_missing(handrail: Handrail) -> None:
    ran = handrail("config", "show", "--base-url", "ana:SECRET@host/v1", "--system", "To: a@b")

    assert "SECRET" not in ran.out
    assert 'base_url            "***@host/v1"\n' in ran.out
    assert 'system              "To: a@b"\n' in ran.out
