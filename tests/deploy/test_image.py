"""The service image: built without a registry, started as compose.yaml says, and called."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.containers import ALONE, MARKS, ROOT, RUN, building, call
from deploy.test_manifests import OBJECTS

pytestmark = MARKS

EXTRAS = "ag-ui,anthropic,cli,console-jwt,credentials,durable,google,mcp,openai,otel,rules,web-app"
PAGE = ROOT / "docs" / "production" / "containers.md"
PREFIX = "handrail-test-"
URL = "postgresql://handrail:secret@127.0.0.1/handrail"
DATABASE = """
set -e
cd /tmp
bin=$(echo /usr/lib/postgresql/*/bin)
echo secret >/tmp/password
$bin/initdb --encoding=UTF8 --auth=scram-sha-256 --username=handrail --pwfile=/tmp/password -D /tmp/data >/dev/null
exec $bin/postgres -D /tmp/data -c listen_addresses=127.0.0.1 -c unix_socket_directories=/tmp
"""
ASK = """
import json, sys, urllib.error, urllib.request
url, headers, body = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3].encode() or None
asked = urllib.request.Request(url, body, headers)
try:
    answer = urllib.request.urlopen(asked, timeout=60)
except urllib.error.HTTPError as error:
    answer = error
except OSError as error:
    sys.exit(f"no answer: {error}")
print(answer.status)
print(answer.read().decode())
"""
READ_SOCKET = """
import socket
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect("/run/handrail/console.sock")
    asked.sendall(b"GET /inbox HTTP/1.1\\r\\nHost: console.example.com\\r\\nX-Forwarded-User: ada\\r\\n"
                  b"X-Forwarded-Groups: payments-leads\\r\\nConnection: close\\r\\n\\r\\n")
    print(b"".join(iter(lambda: asked.recv(65536), b"")).decode())
"""
TOOLS = '''
from handrail import READ, tool

@tool(effect=READ)
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b

TOOLS = [add]
'''


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with building("service", EXTRAS, ("postgresql",), tmp_path_factory.mktemp("image")) as made:
        yield made


class Host:
    """Containers that share one network without a way out. Their parts need ports of their own."""

    def __init__(self, image: str) -> None:
        self._image = image
        self._services = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text(encoding="utf-8"))
        self.started: list[str] = []

    def start_database(self) -> None:
        name = f"{PREFIX}database"
        options = ["--detach", "--name", name]
        base = f"{self._image}-base"
        call(*ALONE, *options, "--user", "postgres", base, "bash", "-c", DATABASE)
        self.started.append(name)
        make = "import psycopg; psycopg.connect('{}', autocommit=True).execute('{}')"
        url = f"{URL.rpartition('/')[0]}/postgres"
        wait_for(lambda: self.run_python(make.format(url, "CREATE DATABASE handrail")))

    def run_python(self, program: str, *words: str, name: str = "") -> str:
        """Run a program in this network, or in a container that was started."""
        where = ["podman", "--runtime", "runc", "exec", f"{PREFIX}{name}"]
        if not name:
            where = [*RUN, *self._network, "--entrypoint", "python", self._image]
        return call(*where, *(["python"] if name else []), "-c", program, *words)

    @property
    def _network(self) -> list[str]:
        return ["--network", f"container:{PREFIX}database"]

    def start(self, service: str, *options: str, name: str = "", mounts: dict[str, str]) -> str:
        """Start a service of compose.yaml, with options behind its word."""
        full = f"{PREFIX}{name or service}"
        words = self._services["services"][service]["command"] if service else []
        volumes = [word for at in mounts for word in ("--volume", f"{mounts[at]}:{at}")]
        given = {"RUNS_DATABASE": URL, "CONSOLE_KEY": "k" * 32, "ALICE_TOKEN": "t" * 32}
        given["HANDRAIL_SERVE_TOKEN"] = "t" * 32
        values = [word for pair in given.items() for word in ("--env", "=".join(pair))]
        named = ["--detach", "--name", full, "--read-only", "--read-only-tmpfs"]
        call(*RUN, *named, *self._network, *volumes, *values, self._image, *words, *options)
        self.started.append(full)
        return full

    def ask(self, url: str, body: str = "", **headers: str) -> tuple[int, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        status, _, text = self.run_python(ASK, url, json.dumps(named), body).partition("\n")
        return int(status), text

    def wait_until_ready(self, url: str) -> str:
        def ask() -> str:
            status, text = self.ask(url)
            assert status == 200, text
            return text

        said: str = wait_for(ask)
        return said

    def stop(self) -> None:
        for name in reversed(self.started):
            call("podman", "rm", "--force", "--ignore", "--time", "0", name)


def wait_for(act: Callable[[], Any]) -> Any:
    """Call a function until it succeeds: what it calls may still start."""
    until = time.monotonic() + 60
    while True:
        try:
            return act()
        except AssertionError:
            if time.monotonic() > until:
                raise
        time.sleep(0.5)


@pytest.fixture
def host(image: str) -> Iterator[Host]:
    host = Host(image)
    try:
        host.start_database()
        yield host
    finally:
        host.stop()


@pytest.fixture
def app(tmp_path: Path) -> str:
    """The folder with the page's program."""
    (tmp_path / "app").mkdir(mode=0o755)
    text = PAGE.read_text(encoding="utf-8")
    program = text.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "app" / "app.py").write_text(program, encoding="utf-8")
    (tmp_path / "app" / "tools.py").write_text(TOOLS, encoding="utf-8")
    return f"{tmp_path / 'app'}"


def test_each_word_starts_a_part_that_answers(host: Host, app: str, tmp_path: Path) -> None:
    mounts = {"/app:ro": app}
    workers = [
        host.start("worker", "--health", f"127.0.0.1:{port}", name=f"worker{port}", mounts=mounts)
        for port in (8080, 8081)
    ]
    host.start("web", mounts=mounts)
    sent = json.dumps({"text": "Hi.", "conversation": "k"})
    about = {"content_type": "application/json", "x_person": "ada"}
    places = ("8000/api", "8080", "8081")
    ready = [host.wait_until_ready(f"http://127.0.0.1:{place}/readyz") for place in places]
    first = host.ask("http://127.0.0.1:8000/api/chat", sent, **about)
    call("podman", "stop", "--time", "40", workers[0])
    second = host.ask("http://127.0.0.1:8000/api/chat", sent, **about)
    metrics = host.ask("http://127.0.0.1:8081/metrics")[1]

    assert [text.strip() for text in ready] == ["ready"] * 3
    for status, text in (first, second):
        assert (status, '{"status":"done","reason":"answer"}' in text) == (200, True)
    assert 'handrail_worker_slots{state="free"} 100' in metrics
    assert host.ask("http://127.0.0.1:8000/api/conversations")[0] == 401

    socket = tmp_path / "socket"
    socket.mkdir()
    socket.chmod(0o777)
    settings = f"{ROOT / 'deploy' / 'console' / 'console.toml'}"
    mounts = {"/etc/handrail/console.toml:ro": settings, "/run/handrail": f"{socket}"}
    host.start("console", mounts=mounts)
    page = wait_for(lambda: host.run_python(READ_SOCKET, name="console"))
    assert page.startswith("HTTP/1.1 200 OK"), page


def test_the_gateway_serves_another_server_to_its_users(
    host: Host, app: str, tmp_path: Path
) -> None:
    settings = tmp_path / "settings"
    settings.mkdir(mode=0o755)
    server = {"url": "http://127.0.0.1:8100/mcp", "bearer_token_env_var": "ALICE_TOKEN"}
    (settings / "servers.json").write_text(
        json.dumps({"mcpServers": {"sums": {**server, "reads": ["*"]}}}), encoding="utf-8"
    )
    (settings / "users.toml").write_text(
        '[principals.alice]\ntoken_env = "ALICE_TOKEN"\n', encoding="utf-8"
    )
    home = {"/home/handrail": "home-upstream"}
    words = ("serve", "-t", "/app/tools.py", "--http", "127.0.0.1:8100")
    host.start("", *words, name="upstream", mounts={"/app:ro": app, **home})
    mounts = {"/etc/handrail:ro": f"{settings}", "/home/handrail": "home-gateway"}
    host.start("gateway", "--first-use", mounts=mounts)
    url = "http://127.0.0.1:8000"
    healthy = wait_for(lambda: host.ask(f"{url}/healthz", host="10.0.0.7:8000"))
    stranger = host.ask(f"{url}/mcp", "{}", content_type="application/json")[0]
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
    about = {
        "content_type": "application/json",
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {'t' * 32}",
    }
    status, text = host.ask(f"{url}/mcp", json.dumps(asked), **about)

    assert healthy == (200, "alive\n")
    assert (stranger, status, "serverInfo" in text) == (401, 200, True)


INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def test_a_validator_with_the_schemas_of_every_kind_accepts_the_manifests(tmp_path: Path) -> None:
    folder = tmp_path / "validator"
    call(
        sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "kubernetes-validate"
    )
    program = """
import json, sys
import kubernetes_validate
for one in json.load(sys.stdin):
    print(kubernetes_validate.validate(one, "1.37", strict=True))
"""
    objects = [one for _, one in OBJECTS if one["kind"] != "ScaledObject"]
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program],
        input=json.dumps(objects),
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.stdout.split(), ended.stderr) == (["1.37"] * len(objects), "")
