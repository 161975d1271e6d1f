"""Modules that a trusted program imports: no command chooses what runs outside the sandbox."""

from __future__ import annotations

import json
import py_compile
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from cli_harness import Handrail

SERVER = Path(__file__).parents[2] / "mcp_client" / "raw_server.py"
EDITS = ("--mode", "edits", "--no-input")
CALL = ("tools", "call", "mcp__notes__get_it", "text=hello")


def trust_all(handrail: Handrail) -> list[str]:
    files = [file["path"] for file in handrail("trust", "--list", "--json").json["files"]]
    assert handrail("trust", "--yes", *files).exit == 0
    return files


@pytest.fixture
def served(handrail: Handrail) -> Handrail:
    """A workspace with a trusted server outside the sandbox, whose program imports a module."""
    text = SERVER.read_text(encoding="utf-8")
    handrail.write("server.py", text.replace("import json\n", "import json, helper\n", 1))
    handrail.write("helper.py", "import pkg.deep\n")
    handrail.write("pkg/deep.py", "")
    handrail.write("notes.py", "")
    entry = {"command": sys.executable, "args": ["-S", "server.py"], "sandbox": False, "reads": ["get_*"]}  # fmt: skip
    handrail.write(".mcp.json", json.dumps({"mcpServers": {"notes": entry}}))
    assert trust_all(handrail) == [".mcp.json", "server.py", "helper.py", "pkg/deep.py"]
    reviewed = handrail("mcp", "review", "notes", "--yes")
    assert reviewed.exit == 0, reviewed.err
    return handrail


def test_a_command_cannot_change_a_module_of_a_server(served: Handrail) -> None:
    out = served.folder / "out"
    payload = f"open({str(out)!r}, 'w').close()\n"
    change = (
        "for name in ('helper.py', 'pkg/deep.py', 'notes.py'):\n"
        f"    try: open(name, 'a').write({payload!r})\n    except OSError as e: print(e.strerror)\n"
    )
    served.write("ev.py", change)

    ran = served("tools", "call", "bash", "command=python3 ev.py", *EDITS)
    written = served("tools", "call", "write", "file_path=pkg/deep.py", "content=x", *EDITS)
    called = served(*CALL)

    assert ran.out.count("Read-only file system") == 2
    assert (written.exit, called.out, out.exists()) == (3, "hello\n", False)
    assert (served.workspace / "notes.py").read_text(
        encoding="utf-8"
    ) == payload  # imported by none

    subprocess.run([sys.executable, "ev.py"], cwd=served.workspace, check=True)
    refused = served(*CALL)
    assert (refused.exit == 0, out.exists()) == (False, False)
    assert "helper.py is not trusted" in refused.out + refused.err
    subprocess.run([sys.executable, "-S", "server.py"], cwd=served.workspace, check=True, input=b"")
    assert out.exists()  # the control: without the check, it runs


def test_a_compiled_module_is_not_run_in_place_of_its_source(served: Handrail) -> None:
    out = served.folder / "out"
    source = served.write("evil.py", f"import pkg.deep\nopen({str(out)!r}, 'w').close()\n")
    compiled = cache_from_source(str(served.workspace / "helper.py"))
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(source), cfile=compiled, invalidation_mode=unchecked)

    assert (served(*CALL).out, out.exists()) == ("hello\n", False)
    subprocess.run([sys.executable, "-S", "server.py"], cwd=served.workspace, check=True, input=b"")
    assert out.exists()  # the control: without the variable, it runs


def test_a_server_with_many_modules_is_listed_in_few_lines(served: Handrail) -> None:
    names = [f"m{number:02}" for number in range(30)]
    for name in names:
        served.write(f"pkg/{name}.py", "")
    served.write("pkg/deep.py", "".join(f"from pkg import {name}\n" for name in names))

    before = served("trust", "--list").out.splitlines()
    trust_all(served)
    after = served("trust", "--list").out.splitlines()

    assert len(before) == 3 + 31
    assert len(after) == 1 + 12 + 1
    assert after[-1].split(maxsplit=2) == ["trusted", "server", "21 more, which `--json` lists"]
    assert len(served("trust", "--list", "--json").json["files"]) == 34
