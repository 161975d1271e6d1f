"""Programs that run outside a sandbox, or with a secret."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from cli_harness import Handrail
from vectors.stage import Check, host

SERVER = Path(__file__).parents[1] / "mcp_client" / "raw_server.py"
EDITS = ("--mode", "edits", "--no-input")
SHELL = "echo x > {}\n"
SECRET = {"AWS_SECRET_ACCESS_KEY": "SECRET"}
PYTHON = "open({!r}, 'w').close()\n"


class Hooked(NamedTuple):
    """A hook, and the file that it runs."""

    line: str
    file: str
    payload: str = SHELL
    """Writes a file outside, with its path filled in."""


HOOKS = {
    "t5-hook-001": Hooked("true;sh semi.sh;true", "semi.sh"),
    "t5-hook-002": Hooked("sh<redir.sh", "redir.sh"),
    "t5-hook-003": Hooked("sh -c 'sh lint.sh --fix'", "lint.sh"),
    "t5-hook-004": Hooked("cd tools && sh fix.sh", "tools/fix.sh"),
    "t5-hook-005": Hooked("sh $PWD/tools/fix2.sh", "tools/fix2.sh"),
    "t5-hook-006": Hooked("sh tools/*3.sh", "tools/x3.sh"),
    "t5-hook-007": Hooked("python3 -m checks", "checks/__main__.py", PYTHON),
    "t5-hook-008": Hooked("make -s fmt", "Makefile", "fmt:\n\techo x > {}\n"),
    "t5-hook-009": Hooked("npm run -s fmt", "package.json", '{{"scripts": {{"fmt": "echo x > {}"}}}}'),
    "t5-hook-012": Hooked("sh plain.sh", "plain.sh"),
}  # fmt: skip
OWN = {
    "t5-hook-010": Hooked(
        "npx --no-install prettier --check .", "node_modules/.bin/prettier", f"#!/bin/sh\n{SHELL}"
    ),
    "t5-hook-011": HOOKS["t5-hook-009"],
}


def _settings(*hooks: Hooked, matcher: str = "Bash") -> str:
    entries = [{"type": "command", "command": hook.line} for hook in hooks]
    tables = ", ".join(
        f'{{type = "command", command = {json.dumps(e["command"])}}}' for e in entries
    )
    return f'[[hooks.PostToolUse]]\nmatcher = "{matcher}"\nhooks = [{tables}]\n'


def _write_all(root: Path, hooks: dict[str, Hooked], out: Path | None) -> str:
    """Write the files of hooks, harmless without ``out``. Returns a program that writes them."""
    lines = ["import pathlib"]
    for name, hook in hooks.items():
        text = hook.payload.format(f"{out}-{name}") if out else "{}" if "{{" in hook.payload else ""
        lines.append(f"p = pathlib.Path({hook.file!r})")
        lines.append("p.parent.mkdir(parents=True, exist_ok=True)")
        lines.append(f"try: p.write_text({text!r}); p.chmod(0o755)\nexcept OSError: pass")
    return "\n".join(lines) + "\n"


@contextmanager
def _handrail() -> Generator[Handrail]:
    with tempfile.TemporaryDirectory(prefix=".handrail-test-", dir=Path.home()) as folder:
        made = Handrail(Path(folder).resolve())
        for name in ("ws", "home", "config/handrail"):
            (made.folder / name).mkdir(parents=True)
        yield made


def _trust_all(handrail: Handrail) -> None:
    found = handrail("trust", "--list", "--json", env=SECRET).json["files"]
    ran = handrail("trust", "--yes", *(file["path"] for file in found), "--json", env=SECRET)
    assert all(file["trusted"] for file in ran.json["files"]), ran


@cache
def _escaped(*, judged: bool) -> frozenset[str]:
    """The hooks that ran changed code outside, in one workspace with all of them."""
    with _handrail() as handrail:
        root, out = handrail.workspace, handrail.folder / "out"
        handrail.write("setup.py", _write_all(root, HOOKS, None))
        host(root, "python3 setup.py")
        handrail.write("ev.py", _write_all(root, HOOKS, out))
        handrail.write("handrail.toml", _settings(*HOOKS.values()))
        if judged:
            _trust_all(handrail)
            ran = handrail("tools", "call", "bash", "command=python3 ev.py", *EDITS)
            assert ran.exit == 0, ran
        else:
            host(root, "python3 ev.py")
            for hook in HOOKS.values():
                host(root, hook.line)
        return frozenset(name for name in HOOKS if Path(f"{out}-{name}").exists())


def _hooked(name: str, _given: Any, _root: Path, *, judged: bool) -> bool:
    return name not in _escaped(judged=judged)


def _own(name: str, _given: Any, _root: Path, *, judged: bool) -> bool:
    """A hook of the user's own settings runs no code of the workspace outside."""
    hook = OWN[name]
    with _handrail() as handrail:
        root, out = handrail.workspace, handrail.folder / "out"
        settings = handrail.config / "config.toml"
        settings.write_text(_settings(hook, matcher="Read|Bash"), encoding="utf-8")
        handrail.write("package.json", "{}")
        handrail.write("ev.py", _write_all(root, {name: hook}, out))
        is_clone = name == "t5-hook-011"
        if is_clone:
            host(root, "python3 ev.py")
        if not judged:
            host(root, f"python3 ev.py; {hook.line}")
        elif is_clone:
            read = ("tools", "call", "read", "file_path=package.json", "--mode", "plan")
            assert handrail(*read).exit == 0
        else:
            handrail("tools", "call", "bash", "command=python3 ev.py", *EDITS)
        return not Path(f"{out}-{name}").exists()


def _serve(handrail: Handrail, name: str, **entry: Any) -> None:
    """Write, trust and review an MCP server whose program is in the workspace."""
    shutil.copy(SERVER, handrail.workspace / name)
    python = os.path.realpath(sys.executable)  # a link of /tmp is not in the sandbox
    server = {"command": python, "args": ["-S", name], "reads": ["get_*"], **entry}
    handrail.write(".mcp.json", json.dumps({"mcpServers": {"notes": server}}))
    _trust_all(handrail)
    reviewed = handrail("mcp", "review", "notes", "--yes", env=SECRET)
    assert reviewed.exit == 0, reviewed.err


def _write_change(handrail: Handrail, name: str, line: str) -> None:
    """Write a program that adds a line to a server."""
    code = f"p.write_text(p.read_text().replace('import json', {line!r} + 'import json', 1))"
    handrail.write("ev.py", f"import pathlib; p = pathlib.Path({name!r})\n{code}\n")


@cache
def _changed_server(*, judged: bool) -> tuple[bool, bool]:
    """Whether a changed server ran outside the sandbox, and whether `edit` asked about it."""
    with _handrail() as handrail:
        out = handrail.folder / "out"
        if judged:
            _serve(handrail, "server.py", sandbox=False)
        else:
            shutil.copy(SERVER, handrail.workspace / "server.py")
        _write_change(handrail, "server.py", PYTHON.format(str(out)))
        bash = handrail("tools", "call", "bash", "command=python3 ev.py", *EDITS)
        if judged:
            assert "Read-only file system" in bash.out
            called = handrail("tools", "call", "mcp__notes__get_it", "text=hello")
            assert called.out == "hello\n"
            host(handrail.workspace, "python3 ev.py")  # as a command of another program would
            handrail("tools", "call", "mcp__notes__get_it", "text=hello")
        else:
            host(handrail.workspace, "python3 server.py < /dev/null")
        words = ("file_path=server.py", "old_string=import json", "new_string=import json  # x")
        handrail("tools", "call", "read", "file_path=server.py")
        edited = handrail("tools", "call", "edit", *words, *EDITS)
        return out.exists(), edited.exit == 3


def _escapes(_given: Any, _root: Path, *, judged: bool) -> bool:
    return not _changed_server(judged=judged)[0]


def _edits(_given: Any, _root: Path, *, judged: bool) -> bool:
    return _changed_server(judged=judged)[1]


def _leaks(_given: Any, _root: Path, *, judged: bool) -> bool:
    """A secret of a server does not reach commands."""
    [variable] = SECRET
    line = f"import os; open('leak.txt', 'w').write(os.environ.get({variable!r}, ''))\n"
    with _handrail() as handrail:
        if judged:
            _serve(handrail, "srv.py", env_vars=[variable])
            _write_change(handrail, "srv.py", line)
            handrail("tools", "call", "bash", "command=python3 ev.py", *EDITS, env=SECRET)
            called = handrail("tools", "call", "mcp__notes__get_it", "text=hello", env=SECRET)
            assert called.out == "hello\n", called
        else:
            handrail.write("srv.py", line)
            host(handrail.workspace, "python3 srv.py", **SECRET)
        leak = handrail.workspace / "leak.txt"
        return not leak.exists() or "SECRET" not in leak.read_text(encoding="utf-8")


@contextmanager
def _listening() -> Generator[tuple[str, list[str]]]:
    """A server that notes the keys it gets, and refuses."""
    keys: list[str] = []

    class Refuses(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            keys.append(self.headers.get("Authorization", ""))
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refuses)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", keys
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _keyed(
    own: str, project: str, words: tuple[str, ...], _given: Any, _root: Path, *, judged: bool
) -> bool:
    """A key does not go to an address that another one set."""
    with _handrail() as handrail, _listening() as (url, keys):
        (handrail.config / "config.toml").write_text(own, encoding="utf-8")
        handrail.write("handrail.toml", project.format(url))
        handrail("trust", "--yes", "handrail.toml")
        chosen = () if judged else tuple(word.format(url) for word in words)
        env = {"HANDRAIL_API_KEY": "HR-KEY", "MINE": "MY-KEY"}
        ran = handrail("run", "hi", *chosen, env=env)
        assert keys, ran.err
        return not any("HR-KEY" in key or "MY-KEY" in key for key in keys)


def _untrusted(_given: Any, _root: Path, *, judged: bool) -> bool:
    """Nothing is sent to an address of a file that is not trusted."""
    with _handrail() as handrail, _listening() as (url, keys):
        handrail.write(
            "handrail.toml",
            f'model = "openai-chat:x"\nbase_url = "{url}"\nkey_variable = "OPENAI_API_KEY"\n',
        )
        handrail.write(".env", f"HANDRAIL_BASE_URL={url}\nOPENAI_BASE_URL={url}\n")
        if not judged:
            handrail("trust", "--yes", "handrail.toml")
        for words in (("run", "hi"), ("doctor",)):
            handrail(*words, env={"OPENAI_API_KEY": "KEY"})
        return not keys


def _imported(_given: Any, _root: Path, *, judged: bool) -> bool:
    """Rules of a clone's file are not for other projects."""
    permissions = {
        "allow": ["Edit", "WebFetch", "mcp__x"],
        "additionalDirectories": ["/"],
    }
    with _handrail() as handrail:
        handrail.write(".claude/settings.json", json.dumps({"permissions": permissions}))
        more = () if judged else ("--user",)
        words = ("rules", "import", "claude", ".claude/settings.json", "--write", "--no-input")
        ran = handrail(*words, *more)
        assert ran.exit == 0, ran.err
        here = handrail("rules", "list", "--json").out
        assert "web_fetch" in here
        return not (handrail.config / "rules.toml").exists()


MODEL = 'model = "openai-chat:x"\n'
ADDRESS = 'base_url = "{}"\n'
KEYED = f'{MODEL}base_url = "http://127.0.0.1:9/v1"\nkey_variable = "MINE"\n'
CHECKS: dict[str, Check] = {
    **{name: partial(_hooked, name) for name in HOOKS},
    **{name: partial(_own, name) for name in OWN},
    "t5-mcp-001": _escapes,
    "t5-mcp-002": _leaks,
    "t5-mcp-003": _edits,
    "t5-key-001": partial(_keyed, "", f"{MODEL}{ADDRESS}", ("--base-url", "{}")),
    "t5-key-002": partial(_keyed, KEYED, ADDRESS, ("--base-url", "{}")),
    "t5-key-003": _untrusted,
    "t5-import-001": _imported,
}
