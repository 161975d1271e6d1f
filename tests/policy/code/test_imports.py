"""Which files the code of a line imports: programs are run for real, and no file is missed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.policy import CodeFiles, find_code_files

VARIABLES = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}
NOTE = {
    ".py": "import os; print(__file__, file=open(os.environ['RAN'], 'a'))\n",
    ".js": "require('fs').appendFileSync(process.env.RAN, __filename + '\\n')\n",
    ".cjs": "require('fs').appendFileSync(process.env.RAN, __filename + '\\n')\n",
    ".mjs": "import fs from 'fs'; fs.appendFileSync(process.env.RAN, import.meta.filename + '\\n')\n",
    ".sh": 'echo "$ROOT/{}" >> "$RAN"\n',
}
"""Code that notes the name of its file."""
PYTHON = {
    "server.py": "import json, helper, a.b\nfrom pkg import sub\nfrom space.inner import name\n",
    "helper.py": "from pkg.deep import *\ndef late():\n    import pkg.late\nlate()\nimport server\n",
    "a/__init__.py": "",
    "a/b.py": "from . import c; from .d.e import f",
    "a/c/__init__.py": "from ..g import h",
    "a/d/__init__.py": "",
    "a/d/e.py": "f = 1",
    "a/g.py": "h = 1",
    "pkg/__init__.py": "",
    "pkg/sub.py": "import json as helper",
    "pkg/deep/__init__.py": "__all__ = ['one', 'two']",
    "pkg/deep/one.py": "",
    "pkg/deep/two.py": "",
    "pkg/late.py": "",
    "space/inner.py": "name = 1",
}
SCRIPTS = {
    "dist/index.js": 'const a = require("./lib"); require( `./b` ).x; require("..")\nimport("./c.mjs")',
    "dist/lib/index.js": "require('../d.cjs'); require('./index')",
    "dist/b.js": "require('../data.json'); require('./package')",
    "dist/package/package.json": '{"main": "main.js"}',
    "dist/package/main.js": "require('../e.js')",
    "dist/c.mjs": "import{x}from'./f.mjs'; import './g.mjs'\nexport * from './h.mjs'",
    "dist/d.cjs": "",
    "dist/e.js": "",
    "dist/f.mjs": "export const x = 1",
    "dist/g.mjs": "",
    "dist/h.mjs": "",
    "data.json": "{}",
    "index.js": "require('./dist/index.js')",
}
SHELL = {
    "run.sh": 'DIR="$(cd "$(dirname "$0")" && pwd)"\n. "$DIR/common.sh"\nfor x in y; do . "$DIR"/tools/a.sh; done',
    "common.sh": "cd \"$DIR\"\nif true; then\n  sh tools/b.sh \"$1\"\nfi\ncat > /dev/null <<E\n'\nE",
    "tools/a.sh": "cd tools; case $- in\n  *) exec sh c;;\nesac\nsh ../run.sh",
    "tools/b.sh": "export PYTHONPATH=lib:$PYTHONPATH\npython3 tools/d.py",
    "tools/c": "",
    "tools/d.py": "import e",
    "lib/e.py": "",
}  # fmt: skip


def write_all(root: Path, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return Path(os.path.realpath(root))


def find(line: str, root: Path, **variables: str) -> CodeFiles:
    return find_code_files(line, root, variables={**VARIABLES, **variables})


def names(line: str, root: Path, **variables: str) -> list[str]:
    """The names of the files, all of which are known."""
    found = find(line, root, **variables)
    assert found.unknown == ""
    return sorted(str(path.relative_to(root)) for path in found.all)


def run(line: str, root: Path) -> set[str]:
    """Run a line for real. Returns the names of the files that ran."""
    marker = root.parent / "ran"
    subprocess.run(  # noqa: S603
        ["/bin/bash", "-c", line],
        cwd=root,
        check=True,
        env={**VARIABLES, "RAN": str(marker), "ROOT": str(root), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    lines = marker.read_text(encoding="utf-8").split()
    return {str(Path(line).relative_to(root)) for line in lines}


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("python3 server.py", PYTHON),
        ("node dist/index.js", SCRIPTS),
        ("sh run.sh", SHELL),
        ("cd tools && sh ../run.sh", SHELL),
    ],
)
def test_no_file_that_code_imports_is_missed(
    tmp_path: Path, line: str, files: dict[str, str]
) -> None:
    if line.startswith("node") and shutil.which("node") is None:
        pytest.skip("Node is not installed")
    noting = {
        name: NOTE.get(Path(name).suffix or ".sh", "").replace("{}", name) + content
        for name, content in files.items()
    }
    root = write_all(tmp_path / "ws", {**noting, "unused.py": "", "unused.js": "", "unused.sh": ""})

    ran, found = run(line, root), find(line, root)
    covered = {name for name in noting if {root / name, *(root / name).parents} & {*found.all}}

    assert (covered, found.unknown) == (set(files), "")
    assert ran == {name for name in files if not name.endswith(".json")}
    assert len(found.named) == 1  # the control: without imports, all others are missed


EDGES = {
    "py": "import f{}\n",
    "js": "require('./f{}');\n",
    "ts": "import x from './f{}.js';\n",
    "sh": '. "$DIR/f{}.sh"\n',
}
STARTS = {"py": "python3", "js": "node", "ts": "node", "sh": "sh"}


@given(
    st.sampled_from(sorted(EDGES)),
    st.lists(st.frozensets(st.integers(0, 7), max_size=3), min_size=8, max_size=8),
)
def test_an_import_graph_is_found_whole(kind: str, graph: list[frozenset[int]]) -> None:
    reached, waiting = {0}, [0]
    while waiting:
        further = graph[waiting.pop()] - reached
        reached |= further
        waiting += further
    with tempfile.TemporaryDirectory() as folder:
        files = {
            f"f{number}.{kind}": "".join(EDGES[kind].format(to) for to in sorted(edges))
            for number, edges in enumerate(graph)
        }
        root = write_all(Path(folder), files)

        assert names(f"{STARTS[kind]} f0.{kind}", root) == [f"f{n}.{kind}" for n in sorted(reached)]


def test_modules_are_found_where_python_looks(tmp_path: Path) -> None:
    files = dict.fromkeys(["srv/server.py", "lib/one.py", "src/one.py", "one.py", "src/f.py"], "import one")  # fmt: skip
    root = write_all(tmp_path, files)

    assert names("python3 srv/server.py", root) == ["srv/server.py"]
    assert names("PYTHONPATH=lib python3 srv/server.py", root) == ["lib/one.py", "srv/server.py"]
    assert names("env PYTHONPATH=src python3 srv/server.py", root) == ["src/one.py", "srv/server.py"]  # fmt: skip
    assert names("python3 srv/server.py", root, PYTHONPATH="src:/x") == ["src/one.py", "srv/server.py"]  # fmt: skip
    assert names("python3 -m srv", root) == ["one.py", "srv"]
    assert names("python3 src", root) == ["one.py", "src"]


ANSWERS: dict[str, tuple[dict[str, str], list[str]]] = {
    "a first line names the language": (
        {"run": "#!/usr/bin/env python3.11\nimport a", "a.py": "", "x": ""},
        ["a.py", "run"],
    ),
    "a text without a first line is read as a shell script": (
        {"run": "sh ./a", "a": "#!/usr/bin/awk -f\nsh b", "b": ""},
        ["a", "run"],
    ),
    "a program is not read": ({"run": "\0 sh ./a", "a": ""}, ["run"]),
    "other text is not read": ({"run": ". ./a.txt", "a.txt": "sh b", "b": ""}, ["a.txt", "run"]),
    "compiled modules count": (
        {"run": "python3 a.py", "a.py": "import b, c", "b.cpython-312-x.so": "", "c.pyc": "", "c.x.py": ""},
        ["a.py", "b.cpython-312-x.so", "c.pyc", "run"],
    ),
    "names that the standard library has, too": (
        {"run": "python3 a.py", "a.py": "import json", "json.py": "import b", "b.py": ""},
        ["a.py", "b.py", "json.py", "run"],
    ),
    "names that no file can have": ({"run": "node a.js", "a.js": f"require('./{'a' * 5000}'); require('./\0')"}, ["a.js", "run"]),
    "more dots than folders": ({"run": "python3 a.py", "a.py": f"from {'.' * 99}x import b"}, ["a.py", "run"]),
    "names that are computed": (
        {"run": "node a.js; python3 b.py", "a.js": "require(x); require('c'); require('./' + x)", "b.py": "__import__('d')", "c.js": "", "d.py": ""},
        ["a.js", "b.py", "run"],
    ),
    "files that the script reads count, those that it writes do not": (
        {"run": "sort < a.txt > b.txt", "a.txt": "", "b.txt": ""},
        ["a.txt", "run"],
    ),
    "a package counts as a whole, and is not followed": (
        {"run": "node a.js", "a.js": "import './node_modules/x/y.js'", "node_modules/x/y.js": "require('../../b')", "b.js": ""},
        ["a.js", "node_modules/x", "run"],
    ),
    "escapes that Python warns about": ({"run": "python3 a.py", "a.py": "'\\d'; import b", "b.py": ""}, ["a.py", "b.py", "run"]),
}  # fmt: skip
UNKNOWN: dict[str, tuple[dict[str, str], str]] = {
    "not Python": ({"run": "python3 a.py", "a.py": "import b, c", "c.py": "def"}, "`c.py` is not valid Python"),
    "zero characters": ({"run": "python3 a.py", "a.py": "\0"}, "`a.py` is not valid Python"),
    "nested too deeply": ({"run": "python3 a.py", "a.py": "(" * 9999 + ")" * 9999}, "`a.py` is not valid Python"),
    "many files": ({"run": "python3 -m a", **{f"a/{at}.py": "" for at in range(501)}}, "its code imports too many files"),
    "large files": ({"run": "python3 -m a", **{f"a/{at}.py": " " * 900_000 for at in range(6)}}, "its code imports too many files"),
    "the whole workspace": ({"run": "node a.js", "a.js": "require('.')", "package.json": "{}"}, "it runs the whole workspace as a program"),
    "many words in many folders": ({"run": ". ./s0", **{f"d{at}/x": "" for at in range(50)}, **{f"s{at}": f". ./s{at + 1}; echo d* " + " ".join(f"{at}w{w}" for w in range(300)) for at in range(40)}}, "it names too many files"),
    "tests": ({"run": "pytest -q"}, "`pytest` runs code from all over the workspace"),
    "many words": ({"run": " ".join(f"w{at}" for at in range(9999))}, "it names too many files"),
}  # fmt: skip


@pytest.mark.parametrize("case", ANSWERS)
def test_the_files_that_a_script_runs(tmp_path: Path, case: str) -> None:
    files, expected = ANSWERS[case]

    assert names("./run", write_all(tmp_path, files)) == expected


@pytest.mark.parametrize("case", UNKNOWN)
def test_code_that_is_not_understood_is_not_answered(tmp_path: Path, case: str) -> None:
    files, reason = UNKNOWN[case]

    assert find("./run", write_all(tmp_path, files)).unknown == reason


def test_links_lead_to_the_files_that_run(tmp_path: Path) -> None:
    root = write_all(tmp_path, {"run.py": "import a, b, d", "lib/a.py": "import c", "c.py": ""})
    (root / "a.py").symlink_to("lib/a.py")
    (root / "b.py").symlink_to("/etc/passwd")
    (root / "d.py").symlink_to("d.py")

    assert names("python3 run.py", root) == ["c.py", "d.py", "lib/a.py", "run.py"]


def test_a_file_that_cannot_be_read_imports_nothing(tmp_path: Path) -> None:
    root = write_all(tmp_path, {"run.py": "import a" + " " * (1 << 20), "a.py": ""})

    assert names("python3 run.py", root) == ["run.py"]
