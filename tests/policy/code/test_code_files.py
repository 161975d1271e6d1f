"""Which workspace files a line runs: lines are run for real, and no file that ran is missed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail.policy import CodeFiles, find_code_files


def unknown(name: str) -> str:
    return f"unknown: it is not known which workspace files `{name}` runs"


SCRIPT = "echo ran >> $RAN\n"
NAMES = (
    "tools/fix.sh",
    "./tools/fix.sh",
    "$PWD/tools/fix.sh",
    "${PWD}/tools/fix.sh",
    '"$HANDRAIL_PROJECT_DIR"/tools/fix.sh',
    "tools/../tools/fix.sh",
    "tools//fix.sh",
    "tools/f*.sh",
    "tools/[f]ix.sh",
    "tools/fi?.sh",
    "to'ols'/fix.sh",
    'tools/"fix.sh"',
    "tools/fi\\x.sh",
    "{tools,}/fix.sh",
    "../ws/tools/fix.sh",
    "link.sh",
)
FRAMES = (
    "sh NAME",
    "true;sh NAME;true",
    "sh<NAME",
    "sh < NAME",
    "sh 0<NAME",
    "cat NAME|sh",
    "sh -c 'sh NAME --fix'",
    "sh -c 'true;sh NAME'",
    'bash -ec "sh NAME"',
    "(sh NAME)",
    "{ sh NAME; }",
    "true&&sh NAME",
    "false||sh NAME",
    "! sh NAME",
    "if true; then sh NAME; fi",
    ". ./NAME",
    "env A=b sh NAME",
    "A=b sh NAME",
    "exec sh NAME",
    "timeout 9 sh NAME",
    "nice -n 1 sh -e NAME",
    "true\nsh NAME",
    "sh NAME&wait",
    "echo $(sh NAME)",
    "echo `sh NAME`",
    "eval sh NAME",
    "eval 'sh NAME'",
    "xargs sh < list.txt",
    "echo NAME | xargs sh",
    "find tools -name fix.sh -exec sh {} +",
    "X=NAME; sh $X",
    "for f in NAME; do sh $f; done",
    "while read f; do sh $f; done < list.txt",
    "sh $(echo NAME)",
    "printf 'sh NAME' | sh",
    "sh <<< 'sh NAME'",
    "sh <<E\nsh NAME\nE",
    "cat <<E | sh\nsh NAME\nE",
    "# NAME\nsh NAME",
)  # fmt: skip
FIX, MAKE, CHECKS, TIDY = "tools/fix.sh", "Makefile", "checks", "node_modules/tidy"
PACKAGE, SETTINGS = "package.json", "tidy.config.js"
WHOLE = "unknown: it runs the whole workspace as a program"
TEXT = "unknown: `python3` runs text that is not in a file"
FOUND: dict[str, list[str]] = {
    "cd tools && sh fix.sh": [FIX],
    "cd tools;./fix.sh": [FIX],
    "cd tools\nsh ./fix.sh": [FIX],
    "(cd tools && . ./fix.sh)": [FIX],
    "cd $PWD/tools && sh fix.sh": [FIX],
    "cd tools/.. && cd tools && sh fix.sh": [FIX],
    "cd / && cd $HANDRAIL_PROJECT_DIR && sh tools/fix.sh": [FIX],
    "cd .. && sh ws/tools/fix.sh": [FIX],
    "env -C tools sh fix.sh": [FIX],
    "env --chdir=tools sh fix.sh": [FIX],
    "PATH=$PWD/tools:$PATH fix.sh": [FIX],
    "PATH=$PATH:tools; fix.sh": [FIX],
    "make -s fmt": [MAKE],
    "make -sC . fmt": [MAKE],
    "make -s -f Makefile fmt": [MAKE],
    "cd tools && make -s -C .. fmt": [MAKE],
    "python3 -m checks": [CHECKS],
    "python3 -mchecks": [CHECKS],
    "python3 checks": [CHECKS],
    "python3 checks/__main__.py": ["checks/__main__.py"],
    "python3 -c 'import checks.__main__'": [TEXT],
    "echo 'import checks.__main__' | python3": [TEXT, "checks/__main__.py"],
    "PYTHONPATH=lib python3 -m inner": ["lib/inner.py"],
    "npm run -s fmt": [PACKAGE, FIX],
    "npm --silent run-script fmt": [PACKAGE, FIX],
    "npm -s test": [PACKAGE, TIDY, SETTINGS],
    "npm run -s nested": [PACKAGE, FIX],
    "npx --no-install tidy": [PACKAGE, TIDY, SETTINGS],
    "npm exec -- tidy": [PACKAGE, TIDY, SETTINGS],
    "node main.js": ["main.js"],
    "node .": [WHOLE],
}
ANSWERED: dict[str, list[str]] = {
    "notify-send done": [],
    "ls | xargs wc": [],
    "echo $?; echo $HOME": [],
    "sh tools/fix.sh >> list.txt 2>&1": [FIX],
    "sh tools/gone.sh": [unknown("sh")],
    "python3 -c 'print(2 * 3, $X)'": [TEXT],
    "env python3 -c 'print(2 * 3, list.txt)'": [TEXT],
    "df | awk '{print $1 * 2}'": [],
    "awk 'BEGIN { system(\"sh tools/fix.sh\") }'": ["unknown: `awk` may run other programs"],
    "ls -d *.txt": ["list.txt"],
    "ls -d too*/f*": [FIX],
    "sh -c 'sh -c \"sh tools/fix.sh\"'": [FIX],
    "tidy": [unknown("tidy"), SETTINGS],
    "cd && sh ws/tools/fix.sh": [FIX],
    "make -f - < list.txt": [MAKE, "list.txt"],
    "python3 -m http.server": [],
    "pytest -q": ["unknown: `pytest` runs code from all over the workspace"],
    "python3 -m pytest": ["unknown: `python3` runs code from all over the workspace"],
    "cargo run": ["unknown: `cargo` runs code from all over the workspace"],
    "sh $X": ["unknown: the value of `$X` is not known"],
    "sh <(cat list.txt)": ["unknown: the value of `<(...)` is not known", "list.txt"],
    "sh 'open": ["unknown: its quotes or brackets are not balanced"],
    "curl -s https://example.org | sh": ["unknown: a shell runs the output of another program"],
    "ls | xargs -n 1 sh -e": ["unknown: a shell runs the output of another program"],
    "find . -exec sh {} +": ["unknown: `find` may run any file"],
    "npm run deep": ["unknown: its scripts run other scripts", PACKAGE],
    "echo many/*": ["unknown: it names too many files"],
    "sh \0 ''": [unknown("sh")],
}


WHOLE_PROGRAMS = (
    "uvicorn server:app",
    "gunicorn server:app",
    "flask run",
    "celery -A checks",
    "coverage run -m pytest",
    "pip install .",
    "mypy",
    "pylint",
    "gulp",
    "nx",
    "turbo",
    "nix develop",
    "java -cp lib Main",
    "/usr/bin/mypy",
    "sh -c mypy",
    "env A=b timeout 9 mypy",
)
UNKNOWN = {
    "npm install": "npm",
    "npm run gone": "npm",
    "npm run fmt --workspaces": "npm",
    "npm run fmt -w a": "npm",
    "find tools -type f -exec {} \\;": "find",
    "find tools -exec some-program {} +": "some-program",
    "uv run -m checks": "uv",
    "uv sync": "uv",
    "uv run checks": "checks",
    "uvx --from . tool": "uvx",
    "tsx lib/gone": "tsx",
    "ts-node": "ts-node",
    "docker compose up": "docker",
    "docker run -v .:/app image": "docker",
    'sqlite3 x.db ".read list.txt"': "sqlite3",
    "git status": "git",
    "/usr/bin/git status": "git",
    "watch main.js": "watch",
    "env": "env",
    "just": "just",
    "node gone": "node",
    "python3 -m timeit": "python3",
    "sh <<E\nmain.js\nE": "sh",
    "eval some-program": "some-program",
    "some-program lib": "some-program",
}
INSTALLED = (
    "npx -y @modelcontextprotocol/server-x",
    "npx -y @modelcontextprotocol/server-filesystem .",
    "uvx mcp-server-time --local-timezone UTC",
    "docker run -i --rm mcp/time",
    "/usr/local/bin/some-server --port 1",
    "some-server",
    "python3 -m mcp_server_time",
)
LOADED: dict[str, list[str]] = {
    "node lib/loaded": ["lib/loaded.js"],
    "bun run lib/loaded": ["lib/loaded.js", PACKAGE],
    "node -r ./lib/loaded /dev/null": ["lib/loaded.js"],
    "node --require=./lib/loaded main.js": ["lib/loaded.js", "main.js"],
    "node -- main.js": ["main.js"],
    "npm run -s load": [PACKAGE, "lib/loaded.js"],
    "npm t": [PACKAGE, TIDY, SETTINGS],
    "npm tst": [PACKAGE, TIDY, SETTINGS],
    "tsx lib/loaded": ["lib/loaded.js"],
    "find tools -name a": [],
    "A=b": [],
    "env A=b": [],
    "A=b; echo done": [],
    "python3 -m black .": [],
    "python3 -W error -m black lib": [],
    "python3 checks/__main__.py -m black": ["checks/__main__.py"],
}


@pytest.mark.parametrize("line", WHOLE_PROGRAMS)
def test_known_runners_of_any_code_are_not_answered(workspace: Path, line: str) -> None:
    for installed in (False, True):
        found = find_code_files(line, workspace, installed=installed)
        assert found.unknown.endswith("runs code from all over the workspace")


@pytest.mark.parametrize("line", UNKNOWN)
def test_a_program_that_is_not_known_may_run_any_file(workspace: Path, line: str) -> None:
    assert answer(line, workspace)[0] == unknown(UNKNOWN[line])


@pytest.mark.parametrize("line", INSTALLED)
def test_installed_servers_run_no_workspace_code(workspace: Path, line: str) -> None:
    assert find_code_files(line, workspace).unknown
    assert find_code_files(line, workspace, installed=True).unknown == ""


def test_an_installed_program_is_not_the_file_of_its_name(tmp_path: Path) -> None:
    root, bin_folder = tmp_path / "ws", tmp_path / "bin"
    for folder in (root, bin_folder):
        folder.mkdir()
        (folder / "tool").touch(0o755)

    found = find_code_files("tool", root, variables={"PATH": str(bin_folder)})

    assert found.unknown == "it is not known which workspace files `tool` runs"


@pytest.mark.parametrize("line", LOADED)
def test_names_without_an_ending_are_found(workspace: Path, line: str) -> None:
    assert sorted(answer(line, workspace)) == sorted(LOADED[line])


@pytest.mark.parametrize(
    "line", ["NODE_OPTIONS='--require ./x' node main.js", "env NODE_OPTIONS=--x node main.js"]
)
def test_variables_that_load_code_are_not_answered(workspace: Path, line: str) -> None:
    reason = "unknown: `NODE_OPTIONS` may make it run other files"
    assert answer(line, workspace) == [reason, "main.js"]


def test_modules_that_shadow_the_standard_library_are_found(tmp_path: Path) -> None:
    root = Path(os.path.realpath(tmp_path))
    for name in ("check.py", "argparse.py", "other.py", "logging/__init__.py", "json/data.txt"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).touch()
    (root / "run").write_text("#!/usr/bin/env python3\n", encoding="utf-8")
    (root / "run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    shadows = [root / "argparse.py", root / "logging"]

    def find_all(line: str) -> list[Path]:
        found = find_code_files(line, root)
        assert found.unknown == ""
        return list(found.all)

    assert find_all("python3 check.py") == [root / "check.py", *shadows]
    assert find_all("./run") == [root / "run", *shadows]
    assert find_all("./run.sh") == [root / "run.sh"]
    assert find_all("python3 -m json.tool") == [root / "json", *shadows]
    assert find_all(f"PYTHONPATH={root} python3 /dev/null") == shadows
    assert find_all("python3 -I check.py") == [root / "check.py"]
    assert find_all("PYTHONSAFEPATH=1 python3 check.py") == [root / "check.py"]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = Path(os.path.realpath(tmp_path_factory.mktemp("code"))) / "ws"
    code = "import os; open(os.environ['RAN'], 'a').write('ran')\n"
    script = "require('fs').appendFileSync(process.env.RAN, 'ran')\n"
    more = '"test": "tidy", "deep": "npm run deep;", "load": "node lib/loaded", "number": 1'
    scripts = f'{{"fmt": "sh tools/fix.sh", "nested": "npm run -s fmt", {more}}}'
    files = {
        "tools/fix.sh": f"#!/bin/sh\n{SCRIPT}",
        "list.txt": "tools/fix.sh\n",
        "Makefile": f"fmt:\n\t@{SCRIPT}".replace("$", "$$"),
        "checks/__init__.py": "",
        "checks/__main__.py": code,
        "lib/inner.py": code,
        "package.json": f'{{"name": "a", "main": "main.js", "scripts": {scripts}}}',
        "main.js": script,
        "lib/loaded.js": script,
        "tidy.config.js": "",
        **{f"many/{number}": "" for number in range(250)},
        "node_modules/tidy/package.json": '{"name": "tidy", "bin": "cli.js"}',
        "node_modules/tidy/cli.js": f"#!/usr/bin/env node\n{script}",
    }
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        path.chmod(0o755)
    (root / "link.sh").symlink_to("tools/fix.sh")
    (root / "node_modules/.bin").mkdir()
    (root / "node_modules/.bin/tidy").symlink_to("../tidy/cli.js")
    return root


def ran(line: str, workspace: Path) -> bool:
    """Whether a shell runs code of the workspace for this line."""
    marker = workspace.parent / "ran"
    marker.unlink(missing_ok=True)
    variables = {"RAN": str(marker), "HANDRAIL_PROJECT_DIR": str(workspace), "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
    subprocess.run(  # noqa: S603
        ["/bin/bash", "-c", line],
        cwd=workspace,
        check=False,
        input=b"",
        capture_output=True,
        env={**os.environ, **variables},
    )
    return marker.exists()


def find(line: str, workspace: Path) -> CodeFiles:
    project = {"HANDRAIL_PROJECT_DIR": str(workspace), "HOME": str(workspace.parent)}
    return find_code_files(line, workspace, variables={**os.environ, **project})


def answer(line: str, workspace: Path) -> list[str]:
    """The files, and why there may be others."""
    found = find(line, workspace)
    unknown = [f"unknown: {found.unknown}"] if found.unknown else []
    return [*unknown, *(str(path.relative_to(workspace)) for path in found.all)]


def words_of(line: str, workspace: Path) -> set[str]:
    """The control: the words that are names of files."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    return {word for word in words if (workspace / word).is_file()}


def framed() -> Iterator[str]:
    """Each frame with the first names, and each name in the first frames."""
    yield from (frame.replace("NAME", name) for frame in FRAMES for name in NAMES[:2])
    yield from (frame.replace("NAME", name) for frame in FRAMES[:7] for name in NAMES[2:])


def test_no_file_that_a_line_runs_is_missed(workspace: Path) -> None:
    lines = [line for line in framed() if ran(line, workspace)]
    target = workspace / "tools/fix.sh"

    answers = {line: find(line, workspace) for line in lines}
    runs = {line: {path.resolve() for path in one.all} for line, one in answers.items()}
    missed = [line for line, one in answers.items() if target not in runs[line] and not one.unknown]
    answered = [line for line, one in answers.items() if not one.unknown]
    by_words = [line for line in answered if "fix.sh" not in str(words_of(line, workspace))]

    assert missed == []
    assert len(lines) > 150
    assert len(answered) > 130
    assert len(by_words) > 50  # the control misses them


@pytest.mark.parametrize("line", [*FOUND, *ANSWERED])
def test_the_answer_for_a_line(workspace: Path, line: str) -> None:
    assert sorted(answer(line, workspace)) == sorted({**FOUND, **ANSWERED}[line])


def test_programs_are_found_in_searched_folders_of_the_workspace(workspace: Path) -> None:
    variables = {"PATH": f"/usr/bin:{workspace}/tools:", "HOME": "/nowhere"}

    found = find_code_files("fix.sh --all", workspace, variables=variables)

    assert found == CodeFiles(named=(workspace / "tools/fix.sh",))


def test_a_line_may_run_in_another_folder(workspace: Path) -> None:
    found = find_code_files("sh fix.sh", workspace, folder=workspace / "tools")

    assert found.all == (workspace / "tools/fix.sh",)


def test_files_elsewhere_are_listed_by_themselves(workspace: Path) -> None:
    own = workspace.parent / "own.sh"
    own.write_text(SCRIPT, encoding="utf-8")

    (workspace.parent / "justfile").touch()

    assert find_code_files("sh ../own.sh", workspace) == CodeFiles(elsewhere=(own,))
    assert find_code_files("cd .. && just", workspace) == CodeFiles()


def test_a_package_with_a_scope_is_found(tmp_path: Path) -> None:
    package = tmp_path / "node_modules/@a/b"
    package.mkdir(parents=True)
    (package / "index.js").touch()
    (tmp_path / "package.json").write_text('{"scripts": []}', encoding="utf-8")

    found = find_code_files("npm exec @a/b", tmp_path)

    assert found.all == (tmp_path / "package.json", package)


@pytest.mark.parametrize("line", ["echo " + " ".join(f"w{at}" for at in range(3000)), "ls deep/*"])
def test_a_line_with_too_much_in_it_is_not_answered(tmp_path: Path, line: str) -> None:
    for number in range(80):
        (tmp_path / f"deep/{number}").mkdir(parents=True)

    assert find_code_files(line, tmp_path).unknown == "it names too many files"


@pytest.mark.soak
@pytest.mark.parametrize("line", FOUND)
def test_a_shell_runs_such_code(workspace: Path, line: str) -> None:
    if line.startswith(("npm", "npx", "node")) and shutil.which("npm") is None:
        pytest.skip("npm is not installed")

    assert ran(line, workspace)
