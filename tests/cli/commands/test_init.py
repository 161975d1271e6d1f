"""`handrail init` and `handrail models list`: the first run."""

from __future__ import annotations

import json
import socket
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cli.terminal import Pty as Terminal
from cli_harness import Handrail, Ran, Schemas
from cli_scripts import programmed
from handrail.cli._base.settings import read_settings
from handrail.cli._project.models import window_of
from handrail.models import known_prices

_PIECE = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
_ANSWER = "".join(
    f"data: {json.dumps({**_PIECE, 'choices': [{'index': 0, 'delta': delta, 'finish_reason': end}]})}\n\n"
    for delta, end in (({"role": "assistant", "content": "OK"}, None), ({}, "stop"))
)
_USED = {"prompt_tokens": 6500, "completion_tokens": 1, "total_tokens": 6501}
_LAST = json.dumps({**_PIECE, "choices": [], "usage": _USED})
NO_SERVER = ("--port", "1")
FILE = """\
# Settings of handrail. `handrail init` writes them; you can edit them.
# `handrail config show --origin` lists every setting and where it is set.

# The model, as PROVIDER:NAME. `handrail models list` lists names.
model = "openai-chat:small"

# The address of the model's server.
base_url = "{url}"

# The environment variable with the API key. The key itself is stored nowhere.
key_variable = "MY_KEY"

# The decision for calls that no rule matches: plan, ask, edits or open.
# `handrail mode --help` says what each of them allows.
mode = "edits"

# More settings, each with an example:
# without = ["bash"]  # tools that the model does not get
# max_turns = 50  # stop a run after N replies of the model
# system = "Be brief."  # the system prompt
"""


class _Server(BaseHTTPRequestHandler):
    status: int
    listed: bytes
    keys: list[str | None]
    bodies: list[bytes]

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/v1/models" else 404)
        self.end_headers()
        self.wfile.write(self.listed)

    def do_POST(self) -> None:
        self.keys.append(self.headers["Authorization"])
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"{_ANSWER}data: {_LAST}\n\ndata: [DONE]\n\n".encode())

    def log_message(self, *_: object) -> None: ...


@contextmanager
def server(
    listed: Any, status: int = 200, bodies: list[bytes] | None = None
) -> Iterator[tuple[str, list[str | None]]]:
    """A model server on this machine: its address, and the keys that it got."""
    keys: list[str | None] = []
    names = {"data": [{"id": name} for name in listed]} if isinstance(listed, list) else listed
    said = {"status": status, "listed": json.dumps(names).encode(), "keys": keys}
    said["bodies"] = [] if bodies is None else bodies
    with ThreadingHTTPServer(("127.0.0.1", 0), type("", (_Server,), said)) as found:
        thread = Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{found.server_port}/v1", keys
        finally:
            found.shutdown()
            thread.join()


def port(url: str) -> tuple[str, str]:
    return "--port", url.rpartition(":")[2].removesuffix("/v1")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return int(unused.getsockname()[1])


def written(handrail: Handrail) -> dict[str, Any]:
    """The settings in the user's file."""
    return tomllib.loads((handrail.config / "config.toml").read_text(encoding="utf-8"))


def test_options_answer_all_questions_and_the_settings_are_tried(
    handrail: Handrail, schema: Schemas
) -> None:
    chosen = ("-m", "openai-chat:small", "--key-variable", "MY_KEY", "--mode", "edits")
    with server(["small"]) as (url, keys):
        ran = handrail("init", *chosen, "--base-url", url, "--json", env={"MY_KEY": "k-1"})

    document = schema("init", ran.json)
    assert (ran.exit, keys, document.pop("answered_after") >= 0) == (0, ["Bearer k-1"], True)
    file = handrail.config / "config.toml"
    assert document == {
        "file": str(file),
        "model": "openai-chat:small",
        "base_url": url,
        "key_variable": "MY_KEY",
        "mode": "edits",
    }
    assert file.read_text(encoding="utf-8") == FILE.format(url=url)
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_variable_of_a_file_is_for_the_model_in_that_file(handrail: Handrail) -> None:
    env = {"MY_KEY": "secret", "HANDRAIL_API_KEY": "own"}
    with server(["small"]) as (url, mine), server(["small"]) as (other, theirs):
        there = ("-m", "openai-chat:small", "--base-url", url)
        assert handrail("init", *there, "--key-variable", "MY_KEY", env=env).exit == 0
        ran = handrail("run", "Go", "--base-url", other, env=env)
        again = handrail("run", "Go", "--base-url", other, "--key-variable", "MY_KEY", env=env)

    assert (ran.exit, again.exit, mine) == (0, 0, ["Bearer secret"])
    assert theirs == ["Bearer own", "Bearer secret"]


def test_a_failed_trial_names_the_address_and_keeps_the_file(handrail: Handrail) -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"

    ran = handrail("init", "-m", "openai-chat:any", "--base-url", url, "--json")

    file = handrail.config / "config.toml"
    assert (ran.exit, written(handrail)) == (6, {"model": "openai-chat:any", "base_url": url})
    assert ran.error == {
        "code": "model_network",
        "message": f"the trial failed: cannot connect to {url[7:-3]}: connection refused",
        "hint": f"is the server running? The address is from {file}:8; "
        f"your settings are kept in {file}",
        "exit": 6,
    }


def test_without_a_key_the_variable_is_named_and_no_run_is_saved(handrail: Handrail) -> None:
    first = handrail("init", "-m", "openai:gpt-5")
    named = handrail("init", "-m", "openai:gpt-5", "--key-variable", "WORK_KEY")
    key = "sk-0123456789"
    a_key = handrail("init", "-m", "openai:gpt-5", "--key-variable", key)
    later = handrail("run", "Go")

    assert [ran.exit for ran in (first, named, a_key, later)] == [2, 2, 2, 2]
    assert "`export OPENAI_API_KEY=...`" in first.err
    assert "`export WORK_KEY=...`" in named.err
    assert later == Ran(
        2,
        "",
        "handrail: no API key for OpenAI\n  set it: `export WORK_KEY=...`, or choose another model "
        "with `handrail init`\n",
    )
    assert "must be the name of an environment variable" in a_key.err
    assert key not in a_key.err
    assert handrail("runs", "list", "--json").json == {"runs": []}


def test_what_is_no_variable_or_no_address_is_refused_and_no_key_is_shown(
    handrail: Handrail,
) -> None:
    url = "ftp://ana:secret@host/v1"
    wrong = handrail("run", "-m", "openai-chat:x", "--base-url", url, "Go")
    file = handrail.write("handrail.toml", 'key_variable = "sk-0123456789"\n')
    handrail("trust", "--yes", "handrail.toml")
    key = handrail("run", "-m", "openai:x", "Go")

    assert wrong == Ran(
        2,
        "",
        "handrail: base_url is not an HTTP URL: ftp://***@host/v1\n"
        "  use http://HOST:PORT/v1 in --base-url\n",
    )
    assert key == Ran(
        2,
        "",
        f"handrail: {file}:1: `key_variable` must be the name of an environment variable\n"
        '  write a valid value, as in `key_variable = "OPENAI_API_KEY"`\n',
    )


def test_a_model_that_fails_or_hangs_is_reported(
    handrail: Handrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.cli._setup.choosing.TRIAL_SECONDS", 0.01)
    hangs = "import anyio\n\nasync def model(request):\n    await anyio.sleep_forever()\n"
    model = programmed(handrail, hangs)[1]
    file = handrail.workspace / model.partition(":")[0]
    grant = ("trust", "--yes", file.name)
    assert handrail(*grant).exit == 0
    late = handrail("init", "-m", model)
    programmed(handrail, "async def model(request):\n    raise ModelError('it is away')\n")
    assert handrail(*grant).exit == 0
    broken = handrail("init", "-m", model)

    assert (late.exit, broken.exit) == (6, 1)
    assert "handrail: the trial failed: no answer within 0 seconds\n" in late.err
    assert "handrail: the trial failed: it is away\n" in broken.err


def test_a_whole_reply_is_an_answer_too(handrail: Handrail) -> None:
    model = programmed(handrail, "async def model(request):\n    return Reply((Text('OK'),))\n")[1]
    handrail("trust", "--yes", "m.py")

    ran = handrail("init", "-m", model)

    assert (ran.exit, written(handrail)["model"]) == (0, f"{handrail.workspace}/{model}")
    assert ran.out.startswith(f"{handrail.workspace}/{model} answered after ")


def test_other_settings_stay_in_the_file(handrail: Handrail) -> None:
    handrail.config.mkdir(parents=True, mode=0o700)
    file = handrail.config / "config.toml"
    file.write_text("# mine\nmax_turns = 7\nmodel = 'a:b' # old\n\n[hooks]\n", encoding="utf-8")
    file.chmod(0o600)
    for model in ("openai:gpt-5", "anthropic:claude-opus-5"):
        assert handrail("init", "-m", model, "--no-try").exit == 0

    head, _, mine = file.read_text(encoding="utf-8").partition("# mine\n")
    assert mine == "max_turns = 7\n\n[hooks]\n"
    assert (
        head.count("#") == FILE.count("#") - 4
    )  # each comment once, without those of three settings
    assert written(handrail)["model"] == "anthropic:claude-opus-5"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"model = ", "is not valid TOML"),
        (b"\xff", "it is not UTF-8"),
        (b'model = """\na"""\n', "it is written in an unusual form"),
    ],
)
def test_a_file_that_cannot_be_changed_is_left_alone(
    handrail: Handrail, content: bytes, reason: str
) -> None:
    handrail.config.mkdir(parents=True, mode=0o700)
    file = handrail.config / "config.toml"
    file.write_bytes(content)

    ran = handrail("init", "-m", "openai:gpt-5", "--no-try")

    assert (ran.exit, file.read_bytes()) == (2, content)
    assert reason in ran.err
    assert "nothing was changed" in ran.err


def test_a_file_that_cannot_be_read_is_left_alone(handrail: Handrail) -> None:
    (handrail.config / "config.toml").mkdir(parents=True)

    ran = handrail("init", "-m", "openai:gpt-5", "--no-try")

    assert (ran.exit, "it is not a regular file" in ran.err) == (2, True)


def test_the_file_of_a_project_is_trusted_as_it_was_written(handrail: Handrail) -> None:
    ran = handrail("init", "-m", "openai:gpt-5", "--no-try", "--project")
    shown = handrail("config", "show", "--json")

    assert (ran.exit, ran.out, ran.err) == (
        0,
        "openai:gpt-5 is set\n",
        "wrote handrail.toml\nstart with `handrail chat`\n",
    )
    model = {one["name"]: one["value"] for one in shown.json["settings"]}["model"]
    assert (model, shown.err) == ("openai:gpt-5", "")
    handrail.write("handrail.toml", "max_turns = 1\n")
    assert "not trusted" in handrail("config", "show").err


def test_a_value_that_does_not_apply_here_is_said(handrail: Handrail) -> None:
    ran = handrail("init", "-m", "openai:a", "--no-try", env={"HANDRAIL_MODEL": "openai:b"})

    assert "model has another value here: it is set by HANDRAIL_MODEL (environment)\n" in ran.err


def test_without_a_terminal_the_option_is_named_that_would_do(handrail: Handrail) -> None:
    with server(["small"]) as (url, _):
        found = handrail("init", *port(url))
    with server({"error": {"message": "Loading model"}}, 503) as (url, _):
        loading = handrail("init", *port(url))

    assert (found.exit, loading.exit, handrail.config.exists()) == (2, 2, False)
    assert f"pass `--model openai-chat:small --base-url {url}`" not in loading.err
    assert "pass `--model openai-chat:small --base-url http://127.0.0.1:" in found.err
    assert "`handrail models list` lists names" in loading.err
    assert "did you mean `openai:gpt-4o`?" in handrail("init", "-m", "gpt-4o").err


def test_the_mode_open_is_checked_before_it_is_stored(
    handrail: Handrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert handrail("init", "-m", "openai:a", "--no-try", "--mode", "open").exit == 0
    assert written(handrail) == {"model": "openai:a", "mode": "open"}


# at a terminal


def asked(handrail: Handrail, *arguments: str, typed: list[tuple[str, str]]) -> tuple[int, str]:
    """Answer questions, each once it is there; the exit code, and what was on the screen."""
    terminal = Terminal(handrail, "init", "--no-try", *arguments)
    try:
        for question, answer in typed:
            terminal.answers(answer, after=question)
        return terminal.ends(), terminal.seen.replace("\r\n", "\n")
    finally:
        terminal.end()


def test_a_server_on_this_machine_is_offered_first(handrail: Handrail) -> None:
    with server(["/models/small.gguf", "large", 7]) as (url, _):
        code, seen = asked(handrail, *port(url), typed=[("Model [1]: ", ""), ("Mode [ask]: ", "1")])

    assert (code, written(handrail)) == (
        0,
        {"model": "openai-chat:small", "base_url": url, "mode": "plan"},
    )
    assert f"  1  openai-chat:small        answers at {url}\n" in seen
    assert "  3  anthropic:claude-opus-5  needs ANTHROPIC_API_KEY\n" in seen
    assert "  2  ask    reading and common development commands run" in seen


def test_a_wrong_answer_is_asked_again_with_a_hint(handrail: Handrail) -> None:
    typed = [
        ("Model: ", "gpt-4o"),
        ("Model: ", "9"),
        ("Model: ", "http://"),
        ("Model: ", "openai:gpt-5"),
        ("Variable [OPENAI_API_KEY]: ", "sk-0123"),
        ("Variable [OPENAI_API_KEY]: ", "WORK_KEY"),
        ("Mode [ask]: ", "all"),
        ("Mode [ask]: ", "edits"),
    ]
    code, seen = asked(handrail, *NO_SERVER, typed=typed)

    assert (code, written(handrail)) == (
        0,
        {"model": "openai:gpt-5", "key_variable": "WORK_KEY", "mode": "edits"},
    )
    assert "did you mean `openai:gpt-4o`?" in seen
    assert "type a number from 1 to 2\n" in seen
    assert "that is not an HTTP address" in seen
    assert "that is not the name of a variable" in seen
    assert "type a number from 1 to 4\n" in seen


def test_the_address_of_a_server_is_an_answer(handrail: Handrail) -> None:
    with server(["a", "b"]) as (url, _):
        bare = url.removesuffix("/v1")
        several = [("Model: ", bare), ("Name of the model [1]: ", "2"), ("Mode [ask]: ", "")]
        asked(handrail, *NO_SERVER, typed=several)
    two = written(handrail)
    with server(["only"]) as (url, _):
        asked(handrail, "--base-url", url, "--mode", "ask", typed=[])
    one = written(handrail)
    far = [("Name of the model: ", "x"), ("Variable [none]: ", ""), ("Mode [ask]: ", "")]
    asked(handrail, "--base-url", "https://nowhere.invalid/v1", typed=far)

    assert two == {"model": "openai-chat:b", "base_url": f"{bare}/v1", "mode": "ask"}
    assert one == {"model": "openai-chat:only", "base_url": url, "mode": "ask"}
    assert written(handrail) == {
        "model": "openai-chat:x",
        "base_url": "https://nowhere.invalid/v1",
        "mode": "ask",
    }


def test_a_key_that_is_set_is_not_asked_for(handrail: Handrail) -> None:
    terminal = Terminal(
        handrail, "init", "--no-try", *NO_SERVER, env={"ANTHROPIC_API_KEY": "k", "LINES": "24"}
    )
    terminal.answers("", after="Model [1]: ")
    terminal.answers("", after="Mode [ask]: ")
    code = terminal.ends()
    terminal.end()
    typed = [("Mode [ask]: ", "")]

    assert (code, "ANTHROPIC_API_KEY is set" in terminal.seen) == (0, True)
    assert written(handrail) == {"model": "anthropic:claude-opus-5", "mode": "ask"}
    assert asked(handrail, "-m", "m.py:model", typed=typed)[0] == 0


def test_leaving_writes_nothing(handrail: Handrail) -> None:
    with server({"error": {}}, 503) as (url, _):
        code, seen = asked(handrail, *port(url), typed=[("Model: ", "\x04")])

    assert (code, handrail.config.exists()) == (130, False)
    assert f"{url} is still loading its model" in seen


# models list


def test_models_are_those_of_servers_here_and_those_with_prices(
    handrail: Handrail, schema: Schemas
) -> None:
    with server(["small"]) as (url, _):
        ran = handrail("models", "list", *port(url), "--json", env={"OPENAI_API_KEY": "k"})
        text = handrail("models", "list", *port(url))

    first, *others = schema("models-list", ran.json)["models"]
    assert first == {
        "model": "openai-chat:small",
        "base_url": url,
        "ready": True,
        "input": None,
        "output": None,
        "as_of": None,
    }
    assert [one["model"] for one in others] == [
        f"{known.provider.lower()}:{name}" for known in known_prices() for name in known.prices
    ]
    assert {one["model"].partition(":")[0]: one["ready"] for one in others} == {
        "anthropic": False,
        "openai": True,
    }
    rows = text.out.splitlines()
    assert rows[0] == f"openai-chat:small            --base-url {url}"
    assert rows[1] == (
        "anthropic:claude-3-5-haiku   $0.80 in, $4 out, as of 2026-11-16; needs ANTHROPIC_API_KEY"
    )
    assert text.err == "use one with `--model NAME`, or set it with `handrail init`\n"


def test_models_that_are_suggested_are_known(handrail: Handrail) -> None:
    listed = handrail("models", "list", *NO_SERVER, "--json").json["models"]

    assert {"anthropic:claude-opus-5", "openai:gpt-5"} <= {one["model"] for one in listed}


@pytest.mark.parametrize(
    ("listed", "status"),
    [([], 200), ("data", 200), ({"data": 1}, 200), (["a"], 404), (["a"], 503)],
    ids=["none", "text", "number", "404", "503"],
)
def test_other_servers_are_not_offered(handrail: Handrail, listed: Any, status: int) -> None:
    with server(listed, status) as (url, _):
        ran = handrail("models", "list", *port(url))

    assert ran.err.startswith("no model server answers on this machine; start one, or pass")
    assert "--base-url" not in ran.out


# the size of the context


def ones(**said: Any) -> dict[str, Any]:
    """A list with one model, and what the server says about it."""
    return {"data": [{"id": "/models/other.gguf", **said}]}


SEVERAL = {"data": [{"id": "big", "max_model_len": 9}, {"id": "small", "max_model_len": 4096}]}


@pytest.mark.parametrize(
    ("listed", "window"),
    [
        (ones(meta={"n_ctx": 8192}), 8192),  # llama.cpp
        (ones(max_model_len=32768), 32768),  # vLLM
        (SEVERAL, 4096),
        ({"data": SEVERAL["data"][:1] * 2}, None),
        (ones(meta={"n_ctx": 0}, max_model_len="many"), None),
        (ones(), None),
        ("data", None),
    ],
)
def test_a_server_here_says_how_much_its_model_holds(
    tmp_path: Path, listed: Any, window: int | None
) -> None:
    with server(listed) as (url, _):
        settings = read_settings(tmp_path, {"model": "openai-chat:small", "base_url": url})
        assert window_of(settings) == window


@pytest.mark.parametrize(
    ("flags", "window"),
    [
        ({"model": "anthropic:claude-opus-5"}, 200_000),
        ({"model": "openai:gpt-5-mini"}, 400_000),
        ({"model": "openai:gpt-5-chat-latest"}, 128_000),
        ({"model": "openai:of-my-own"}, None),
        ({"model": "model.py:gpt-5"}, None),
        ({"model": "openai:gpt-5", "base_url": "https://models.example/v1"}, 400_000),
    ],
)
def test_other_windows_are_those_of_known_models(
    tmp_path: Path, flags: dict[str, str], window: int | None
) -> None:
    assert window_of(read_settings(tmp_path, flags)) == window


@pytest.mark.parametrize(
    ("said", "used", "shortened"),
    [
        ({"meta": {"n_ctx": 8192}}, "Used: 6,501 tokens, 79 percent of the context.", True),
        ({}, "Used: 6,501 tokens.", False),
    ],
)
def test_the_size_of_the_context_is_shown_and_kept_to(
    handrail: Handrail, said: dict[str, Any], used: str, *, shortened: bool
) -> None:
    bodies: list[bytes] = []
    with server(ones(**said), bodies=bodies) as (url, _):
        model = ("--model", "openai-chat:small", "--base-url", url)
        pty = Terminal(handrail, "chat", "--plain", *model)
        for prompt in ("One.", "Two.", "Three.", "Four.", "Five."):
            pty.sees("> ")
            pty.types(f"{prompt}\r")
            pty.sees("Used: ")
        pty.sees("> ")
        pty.types("/quit\r")
        assert pty.ends() == 0
        pty.end()

    assert used in pty.seen
    assert any(b"The conversation becomes too long" in body for body in bodies) is shortened
