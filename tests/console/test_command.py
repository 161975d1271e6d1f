"""The command `handrail console`, and what it says if something is missing."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator

from cli_harness import SCHEMAS, Handrail, made
from console.visits import make_pending, park
from handrail import HandrailError
from handrail.console import app
from handrail.runs import open_runs
from sealing import codec

COMMAND = [sys.executable, "-m", "handrail.cli", "console", "--json"]


@pytest.fixture
def handrail(tmp_path: Path) -> Handrail:
    """The command, in an empty workspace."""
    return made(tmp_path)


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


@contextmanager
def running(folder: Path, *args: str) -> Generator[dict[str, Any]]:
    """Start the command; what it prints first."""
    env = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder)}
    process = subprocess.Popen(  # noqa: S603  our own command
        [*COMMAND, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=folder
    )
    assert process.stdout is not None
    try:
        lines = b""
        while not lines.rstrip().endswith(b"}"):
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
            lines += line
        yield json.loads(lines)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_the_link_of_the_command_opens_the_console(tmp_path: Path) -> None:
    file = tmp_path / "own.db"
    with running(tmp_path, "--port", "0", "--runs", str(file)) as said, httpx2.Client() as client:
        origin, _, code = said["url"].partition("/link?code=")
        page = client.get(said["url"])
        headers = {"origin": origin, "sec-fetch-site": "same-origin"}
        signed = client.post(f"{origin}/link", data={"code": code}, headers=headers)
        inbox = client.get(origin + signed.headers["location"])
        rules = client.get(str(inbox.url).replace("/inbox", "/rules"))

    schema = json.loads((SCHEMAS / "console.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(said)
    assert "This link works once." in page.text
    assert (signed.status_code, inbox.status_code) == (303, 200)
    assert "Nothing waits for you" in inbox.text
    assert "Try a rule on recorded calls" in rules.text  # with the rules of this folder
    assert "server" not in inbox.headers


def test_the_codec_of_the_settings_opens_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "sealed.db"
    with open_runs(file, codec=codec) as journal:
        park(journal, make_pending("r1"))
    monkeypatch.setenv("HANDRAIL_CODEC", "sealing:codec")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    with running(tmp_path, "--port", "0", "--database", str(file)) as said:
        origin, _, code = said["url"].partition("/link?code=")
        headers = {"origin": origin, "sec-fetch-site": "same-origin"}
        with httpx2.Client(follow_redirects=True) as client:
            inbox = client.post(f"{origin}/link", data={"code": code}, headers=headers)

    assert "Refund $1,240.00 to order 88213" in inbox.text


def test_behind_a_proxy_on_a_unix_socket(tmp_path: Path) -> None:
    place = tmp_path / "c.sock"
    config = write(
        tmp_path / "console.toml",
        'hosts = ["c.example"]\nhttps = true\n[proxy]\nheader = "X-User"\n[groups.all]\n',
    )
    with running(tmp_path, "--config", config, "--socket", str(place)) as said:
        transport = httpx2.HTTPTransport(uds=str(place))
        with httpx2.Client(transport=transport, base_url="http://c.example") as client:
            named = {"x-user": "ana", "x-forwarded-groups": "all"}
            found = [client.get("/inbox", headers=sent) for sent in (named, {})]

    assert said == {"url": None}
    assert [one.status_code for one in found] == [200, 401]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--config", "none.toml"], "config"),
        (["--config", "plain.toml"], "config"),
        (["--port", "TAKEN"], "usage"),
        (["--socket", "no/such/folder/c.sock"], "usage"),
    ],
)
def test_what_is_wrong_is_said_before_it_starts(
    handrail: Handrail, tmp_path: Path, args: list[str], code: str
) -> None:
    text = 'hosts = ["c"]\n[proxy]\nheader = "X"\n'
    plain = write(tmp_path / "plain.toml", text)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = [one.replace("TAKEN", port).replace("plain.toml", plain) for one in args]
        ran = handrail("console", "--json", *words)

    assert ran.exit != 0
    assert ran.error["code"] == code


def test_without_the_extra_the_message_says_what_to_install(
    handrail: Handrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "jinja2" else find(name)
    )
    ran = handrail("console")

    assert ran.exit != 0
    assert "the console needs the package `jinja2`" in ran.err
    assert "pip install 'handrail[console]'" in ran.err


def test_without_the_extra_the_library_says_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "handrail.console._application", raising=False)
    monkeypatch.setitem(sys.modules, "starlette.routing", None)
    with pytest.raises(HandrailError, match=r"pip install 'handrail\[console\]'"):
        app(runs="x.db")
