"""Safeguards: changes that need approval in every mode, however they are spelled."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import DESTROY, READ, WRITE, Access, Allow, Ask, Call, CheckedCall, Spec
from handrail.permissions import Matched, Origin
from handrail.policy import Rulebook, builtin_rules

OPEN = Rulebook(mode="open", sandboxed=True)
PROTECTED_PATHS = Origin("protected paths", kind="built-in")
CATASTROPHIC_COMMANDS = Origin("catastrophic commands", kind="built-in")


def explain(tool: str, args: dict[str, str], access: Access) -> tuple[Matched, ...]:
    """What decides in the mode that lets everything else pass."""
    spec = Spec(name=tool, description="", input_schema={}, effect=DESTROY)
    return OPEN.explain(CheckedCall.recorded(Call(tool, args, "1"), spec, (access,)))


def is_protected(access: Access) -> bool:
    return explain("save", {}, access)[0].origin == PROTECTED_PATHS


def wrecked_by(line: str) -> str:
    """How a command could damage the system; empty if it could not."""
    first = explain("bash", {"command": line}, Access(DESTROY, "*"))[0]
    return first.why if first.origin == CATASTROPHIC_COMMANDS else ""


def wrecked_by_words(line: str) -> str:
    """The same for a command whose words, divided by single blanks, are not expanded."""
    return wrecked_by(shlex.join(line.split(" ")))


# ---------------------------------------------------------------- protected paths

PROTECTED = [
    ".git", ".git/hooks/pre-commit", ".git/config", "sub/.git/config", ".handrail/rules.toml", ".ssh/authorized_keys",
    ".gnupg/x", ".aws/credentials", ".vscode/tasks.json", ".idea/x", ".husky/pre-push", ".claude/settings.json",
    ".cursor/rules", ".devcontainer/devcontainer.json", ".venv/bin/python", ".envrc", ".bashrc", ".zshrc", ".profile",
    "/home/me/.bashrc", "../.zshenv", ".gitconfig", ".gitmodules", ".mcp.json", ".npmrc", ".netrc", "handrail.toml",
    "AGENTS.md", "docs/CLAUDE.md", "conftest.py", "sub/conftest.py", "sitecustomize.py", ".github/workflows/ci.yml",
    ".github/actions/x/action.yml", ".circleci/config.yml", ".gitlab-ci.yml", ".pre-commit-config.yaml",
]  # fmt: skip


@pytest.mark.parametrize("path", PROTECTED)
def test_a_write_to_what_runs_or_steers_is_protected_there_already_or_not(path: str) -> None:
    touched = [Access(verb, f"file:{path}") for verb in (WRITE, DESTROY, READ)]

    assert [is_protected(one) for one in touched] == [True, True, False]


@pytest.mark.parametrize(
    "path",
    [
        ".GIT/config", ".Git/hooks/x", ".git./config", ".git /config", ".git. . /config", "GIT~1/config", "git~1",
        ".g\u0131t/../.git/x", ".g\u200cit/config", ".\uff47it/config", ".\uff47\uff49\uff54/x", ".\u017fsh/x", ".bashrc.", ".BASHRC ",
        ".git\ufe0f/config", "./.git", "a/../.git/config", "//.git//config", ".\u212aube/config", ".GITHUB/Workflows/x",
    ],
)  # fmt: skip
def test_another_spelling_that_some_file_system_takes_for_the_same_is_protected(path: str) -> None:
    assert is_protected(Access(WRITE, f"file:{path}")) is True


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a.py",
        "src/a.py",
        "git/config",
        "x.git",
        ".gitignore",
        ".github/CODEOWNERS",
        ".envs/x",
        "bashrc",
        "ssh/x",
        "größe.txt",
        ".env",
    ],
)
def test_plain_files_are_not_protected(path: str) -> None:
    assert is_protected(Access(WRITE, f"file:{path}")) is False


def test_only_files_are_protected() -> None:
    assert [
        is_protected(Access(WRITE, one)) for one in ("db:.git/x", "net:.git", "*", "exec:.git")
    ] == [False] * 4


@given(
    st.sampled_from([".git", ".ssh", ".handrail"]),
    st.lists(st.sampled_from(["a", "..", ".", "", "B"]), max_size=4),
    st.text("x.\u200b ä", max_size=4),
)
def test_nothing_below_a_protected_folder_gets_through(
    folder: str, above: list[str], name: str
) -> None:
    spelled = "".join(one.upper() if at % 2 else one for at, one in enumerate(folder))
    path = "/".join([*above, spelled, f"y{name}"])

    assert is_protected(Access(WRITE, f"file:{path}")) is True


# ---------------------------------------------------------------- words of commands

ALL = Rulebook(builtin_rules("read_only", "development"), mode="open", sandboxed=True)


def protected_words(policy: Rulebook, line: str) -> bool:
    """Whether a command is taken to write something that is protected."""
    spec = Spec(name="bash", description="", input_schema={}, effect=DESTROY)
    call = CheckedCall.recorded(Call("bash", {"command": line}, "1"), spec, (Access(DESTROY, "*"),))
    return any(one.origin == PROTECTED_PATHS for one in policy.explain(call))


READING = [
    "[ -d .git ]", "[ -d .git ] && echo yes", "[[ -f AGENTS.md ]] && head AGENTS.md", "test -f .envrc || echo none",
    "if [ -d .git ]; then git status; fi", "source .venv/bin/activate", "source .venv/bin/activate && pytest -q",
    ". .venv/bin/activate; pytest", "export PATH=$PWD/.venv/bin:$PATH", "PATH=$PWD/.venv/bin:$PATH pytest",
    "cat AGENTS.md", "ls -la .git/hooks", "wc -l conftest.py .gitlab-ci.yml",
    "find . -path ./.venv -prune -o -name x -print", "grep -rn x . --exclude-dir=.git --exclude-dir .venv",
    "tar czf x.tgz --exclude=.git --exclude .venv src", "git add AGENTS.md .github/workflows/ci.yml",
    "git diff -- .npmrc", "git log --oneline HEAD -- .vscode", "git commit -m x AGENTS.md", "git reset HEAD~1",
    "git reset HEAD", "git checkout HEAD -- src/a.py", "git show origin/HEAD", "curl -X HEAD https://example.org",
    "echo .venv >> .gitignore", "du -sh .git", "cd .git && ls",
    "for f in .github/workflows/*.yml; do cat $f; done", "cd $(git rev-parse --show-toplevel) && cat AGENTS.md",
    "head -50 $(find . -name conftest.py)", "cat .npmrc 2>/dev/null || echo $(ls .vscode)",
    "find . -path ./.venv -prune -o -name '*.py' -print | xargs grep foo", "ls .git/hooks | xargs -0 -n 1 -I{} wc -l {}",
    "python -m venv .venv", "python3 -m venv ./.venv && .venv/bin/pip install -e .", "uv venv .venv", "virtualenv .venv",
    "sed -n 1,${N}p AGENTS.md", "actionlint .github/workflows/ci.yml", "prettier --check .github/workflows/*.yml", "ruff check conftest.py",
    "python -c \"print(open('AGENTS.md').read())\"",
    "python3 .agents/skills/a/run.py", "python3.12 -u .agents/skills/a/run.py in out", "uv run .agents/skills/a/run.py x",
    "uv run python .agents/skills/a/run.py", "bash -eu .claude/skills/a/run.sh", "node .agents/skills/a/run.js",
]  # fmt: skip
WRITING = [
    "cp x .git/hooks/pre-commit", "tee .bashrc", "tee AGENTS.md < x", "rm -rf .git", "mv .vscode x", "sed -i s/a/b/ AGENTS.md",
    "touch .envrc", "echo x > HEAD", "echo x > .npmrc", "find .git -delete", "find .git -name x -exec rm {} +",
    "find . -fprint .bashrc", "git diff --output=.bashrc", "git checkout AGENTS.md", "git -C sub checkout .vscode",
    "./cat .bashrc", "sudo tee .bashrc", "env tee .bashrc", "alias cat=tee; cat .bashrc", "cat() { tee $1; }; cat .bashrc",
    "function cat { tee $1; }; cat .bashrc", "dd of=.git/config", "cd .git; echo x > config", "rm $(echo .bashrc)", "rm `echo .bashrc`", "echo .bashrc | while read f; do rm $f; done",
    "export D=.git; cp x $D/config", "declare D=.git/hooks; cp x $D/y", "env D=.git sh -c 'cp x $D/config'", "for f in .git/hooks/*; do rm $f; done", "cat $(tee .bashrc)", "find .git | xargs rm", "find .git | xargs -I cat rm cat", "python -m venv .git/hooks", "python -m pip install -t .venv x",
    "cp venv .vscode", "sed -ni p AGENTS.md", "ruff format conftest.py", "ruff check --fix conftest.py", "prettier -w .vscode/x.json",
    "python -c \"open('AGENTS.md', 'w').write('x')\"", "python3 - <<'EOF'\nfrom pathlib import Path\nPath('.envrc').write_text('x')\nEOF",
    "python3 run.py .envrc", "python3 .envrc .envrc", "./python3 .envrc", "bash -s .envrc", "perl -i .envrc", "uv run rm .envrc", "uv run -q .envrc x",
    "alias python3=tee; python3 .envrc", "hash -p /usr/bin/tee sh; echo x | sh .envrc", "PATH=.:$PATH; echo x | sh .envrc", "python3() { tee $1; }; python3 .envrc", "uv pip compile -o .envrc",
]  # fmt: skip


@pytest.mark.parametrize("line", READING)
def test_what_a_command_only_reads_is_not_protected(line: str) -> None:
    assert [protected_words(policy, line) for policy in (OPEN, ALL)] == [False, False]


@pytest.mark.parametrize("line", WRITING)
def test_what_a_command_may_write_is(line: str) -> None:
    assert [protected_words(policy, line) for policy in (OPEN, ALL)] == [True, True]


# ---------------------------------------------------------------- catastrophic commands


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("rm -rf /", "rm would delete all of /"),
        ("rm -rf /*", "rm would delete all of /*"),
        ("rm -r -f //", "rm would delete all of //"),
        ("rm -fR /usr", "rm would delete all of /usr"),
        ("rm -rf /usr/", "rm would delete all of /usr/"),
        ("rm -rf /home/*", "rm would delete all of /home/*"),
        ("rm --recursive ~", "rm would delete all of ~"),
        ("rm -rf ~/", "rm would delete all of ~/"),
        ("rm -rf ~/*", "rm would delete all of ~/*"),
        ("rm -rf ~root", "rm would delete all of ~root"),
        ("rm -rf $HOME", "rm would delete all of $HOME"),
        ("rm -rf ${HOME}/", "rm would delete all of ${HOME}/"),
        ("rm -rf .", "rm would delete all of ."),
        ("rm -rf ./*", "rm would delete all of ./*"),
        ("rm -rf *", "rm would delete all of *"),
        ("rm -rf ..", "rm would delete all of .."),
        ("rm -rf ../../*", "rm would delete all of ../../*"),
        ("rm -rf x ..", "rm would delete all of .."),
        ("/bin/rm -rf -- /", "rm would delete all of /"),
        ("rm --no-preserve-root x", "rm would delete the root of the file system"),
        ("rm -rf", "rm would delete files that only the shell can name"),
        ("rm -r build ", "rm would delete files that only the shell can name"),
        ("rm -rf /home/me", "rm would delete all of /home/me"),
        ("find -L ./a / -delete", "find would delete all of /"),
        ("chmod -R 777 /", "chmod would change all of /"),
        ("chown -R me ~", "chown would change all of ~"),
        ("chgrp -R me /etc", "chgrp would change all of /etc"),
        ("find / -delete", "find would delete all of /"),
        ("find ~ -name x -delete", "find would delete all of ~"),
        ("mv ~ /x", "mv would move all of ~"),
        ("mv /* /x", "mv would move all of /*"),
        ("mv $HOME x", "mv would move all of $HOME"),
        ("kill -9 -1", "kill would end every process"),
        ("kill -1", "kill would end every process"),
        ("shutdown now", "shutdown would stop or restart this machine"),
        ("/sbin/reboot", "reboot would stop or restart this machine"),
        ("halt", "halt would stop or restart this machine"),
        ("poweroff", "poweroff would stop or restart this machine"),
        ("mkfs.ext4 /dev/sda1", "mkfs.ext4 would change a disk"),
        ("mkfs x", "mkfs would change a disk"),
        ("wipefs -a x", "wipefs would change a disk"),
        ("dd if=x of=/dev/sda", "dd would overwrite /dev/sda"),
        ("tee /dev/nvme0n1", "tee would overwrite /dev/nvme0n1"),
        ("cp x /dev/disk/by-id/y", "cp would overwrite /dev/disk/by-id/y"),
    ],
)
def test_a_command_that_wrecks_more_than_the_workspace_is_told(line: str, what: str) -> None:
    assert wrecked_by_words(line) == what


@pytest.mark.parametrize(
    "line",
    [
        "rm --recurs /", "rm -rf /usr/..", "rm -rf ~/.", "rm -rf /etc/.", "find . / -delete", "mv -f /home /x", "mv -- ~ /x",
        "kill -9 -1 5", "shred /dev/sda", "=rm -rf /", "dd of=//dev/sda",
    ],
)  # fmt: skip
def test_another_spelling_of_it_is_told_too(line: str) -> None:
    assert wrecked_by_words(line) != ""


@pytest.mark.parametrize("line", ["find -- / -delete", "find -O3 / -delete", "find -D x / -delete"])
def test_an_option_of_find_hides_nothing(line: str) -> None:
    assert wrecked_by_words(line) == "find would delete all of /"


@pytest.mark.parametrize(
    "line",
    [
        "rm x", "rm -rf build", "rm -rf ./build", "rm -f /", "rm -rf a/*", "rm -rf /home/me/project/build", "find . -delete", "find ./ -delete", "find build -name * -delete", "find . -name x", "echo --no-preserve-root",
        "find / -name x", "mv a b", "mv ./a /tmp/x", "mv . x", "kill 1", "kill -9 123", "chmod +x a", "chmod 644 /", "dd if=/dev/zero of=x",
        "tee log", "cp a b", "cp a /dev/null", "ls -R /", "echo reboot", "git rm -r .", "cp -r / x", "mv", "kill", "rm", "find -delete",
    ],
)  # fmt: skip
def test_everyday_commands_are_not_catastrophic(line: str) -> None:
    assert wrecked_by_words(line) == ""


def test_a_redirection_over_a_disk_is_told_and_another_is_not() -> None:
    lines = ("ls > x > /dev/sda", "ls > /dev/null > a", "ls")

    assert [wrecked_by(line) for line in lines] == [
        "a redirection would overwrite /dev/sda",
        "",
        "",
    ]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "word",
    ["/" * 9_900 + "x", "../" * 3_300 + "x", "/a" * 4_950, "~" * 9_900 + "/", "*" * 9_900],
)
@pytest.mark.parametrize("times", [1, 20])
def test_no_word_makes_it_slow(word: str, times: int) -> None:
    assert wrecked_by_words(f"ls -r {word * times}") == ""


# ---------------------------------------------------------------- code of this process


def decide(root: Path, path: str, **options: Any) -> str:
    """Why a change of a file in a workspace is protected, in a mode that lets all else pass."""
    policy = Rulebook(mode="edits", sandboxed=True, **{"workspace": root, **options})
    spec = Spec(name="save", description="", input_schema={}, effect=WRITE)
    access = Access(WRITE, f"file:{path}")
    first = policy.explain(CheckedCall.recorded(Call("save", {}, "1"), spec, (access,)))[0]
    return first.why if first.origin == PROTECTED_PATHS else ""


def test_code_that_this_process_imports_from_the_workspace_is_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src").mkdir()
    paths = ("src/a.py", f"{tmp_path}/src/a.py", "SRC/a.py", "src", "a.py", "tests/src/a.py")
    before = [decide(tmp_path, path) for path in paths]
    monkeypatch.syspath_prepend(tmp_path / "src")
    why = "is protected: this program imports code from src, outside the sandbox"

    assert before == ["", "", "", "", "", ""]
    assert [decide(tmp_path, path) for path in paths] == [
        f"src/a.py {why}",
        f"{tmp_path}/src/a.py {why}",
        f"SRC/a.py {why}",
        f"src {why}",
        "",
        "",
    ]
    assert decide(tmp_path, "src/a.py", workspace=None) == ""


def test_an_environment_is_found_by_its_file_when_the_call_is_decided(tmp_path: Path) -> None:
    environment = tmp_path / "backend/env"
    environment.mkdir(parents=True)
    (tmp_path / "pyvenv.cfg").touch()
    policy = Rulebook(mode="edits", sandboxed=True, workspace=tmp_path)
    spec = Spec(name="save", description="", input_schema={}, effect=WRITE)
    access = Access(WRITE, "file:backend/env/lib/x.pth")
    call = CheckedCall.recorded(Call("save", {}, "1"), spec, (access,))
    before = policy(call)
    (environment / "pyvenv.cfg").touch()
    after = policy(call)

    assert (type(before), type(after)) == (Allow, Ask)
    assert decide(tmp_path, "backend/env/lib/x.pth") == (
        "backend/env/lib/x.pth is protected: Python runs code from the environment backend/env"
    )
    inside = [f"{environment}/x", "backend/env", "backend/x", "x"]
    assert [bool(decide(tmp_path, path)) for path in inside] == [True, True, False, False]
    assert [bool(decide(tmp_path, path, workspace=None)) for path in inside[:2]] == [True, False]


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("rm -r backend/env", True),
        ("echo x > backend/env/x.pth", True),
        ("cat backend/env/pyvenv.cfg", False),
        ("backend/env/bin/python -m pytest backend", False),
        ("python3 -m venv env2", False),
        ("find . -not -path './backend/env/*' -name '*.pyc' -delete", False),
        ("find backend/env -name '*.pyc' -delete", True),
        ("find . -path './backend/env/*' -delete", True),
        ("alias find=rm; find ! -path backend/env/x", True),
    ],
)
def test_a_command_that_changes_an_environment_needs_approval(
    tmp_path: Path, line: str, *, asks: bool
) -> None:
    (tmp_path / "backend/env").mkdir(parents=True)
    (tmp_path / "backend/env/pyvenv.cfg").touch()
    policy = Rulebook(mode="open", sandboxed=True, workspace=tmp_path)
    spec = Spec(name="bash", description="", input_schema={}, effect=DESTROY)
    call = Call("bash", {"command": line}, "1")
    found = policy.explain(CheckedCall.recorded(call, spec, (Access(DESTROY, "*"),)))

    assert any(one.origin == PROTECTED_PATHS for one in found) is asks
