"""The floor: what is asked about in every mode, however it is spelled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import DESTROY, READ, WRITE, Access
from handrail.policy._floor import catastrophic, protected, wrecks

# ---------------------------------------------------------------- protected paths

PROTECTED = [
    ".git", ".git/hooks/pre-commit", ".git/config", "sub/.git/config", ".handrail/rules.toml", ".ssh/authorized_keys",
    ".gnupg/x", ".aws/credentials", ".vscode/tasks.json", ".idea/x", ".husky/pre-push", ".claude/settings.json",
    ".cursor/rules", ".devcontainer/devcontainer.json", ".venv/bin/python", ".envrc", ".bashrc", ".zshrc", ".profile",
    "/home/me/.bashrc", "../.zshenv", ".gitconfig", ".gitmodules", ".mcp.json", ".npmrc", ".netrc", "handrail.toml",
    "AGENTS.md", "docs/CLAUDE.md", "tests/conftest.py", "sitecustomize.py", ".github/workflows/ci.yml",
    ".github/actions/x/action.yml", ".circleci/config.yml", ".gitlab-ci.yml", ".pre-commit-config.yaml",
]  # fmt: skip


@pytest.mark.parametrize("path", PROTECTED)
def test_a_write_to_what_runs_or_steers_is_protected_there_already_or_not(path: str) -> None:
    touched = [Access(verb, f"file:{path}") for verb in (WRITE, DESTROY, READ)]

    assert [protected(one) for one in touched] == [True, True, False]


@pytest.mark.parametrize(
    "path",
    [
        ".GIT/config", ".Git/hooks/x", ".git./config", ".git /config", ".git. . /config", "GIT~1/config", "git~1",
        ".g\u0131t/../.git/x", ".g\u200cit/config", ".\uff47it/config", ".\uff47\uff49\uff54/x", ".\u017fsh/x", ".bashrc.", ".BASHRC ",
        ".git\ufe0f/config", "./.git", "a/../.git/config", "//.git//config", ".\u212aube/config", ".GITHUB/Workflows/x",
    ],
)  # fmt: skip
def test_another_spelling_that_some_file_system_takes_for_the_same_is_protected(path: str) -> None:
    assert protected(Access(WRITE, f"file:{path}")) is True


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
    assert protected(Access(WRITE, f"file:{path}")) is False


def test_only_files_are_protected() -> None:
    assert [
        protected(Access(WRITE, one)) for one in ("db:.git/x", "net:.git", "*", "exec:.git")
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

    assert protected(Access(WRITE, f"file:{path}")) is True


# ---------------------------------------------------------------- catastrophic commands


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("rm -rf /", "rm on all of /"),
        ("rm -rf /*", "rm on all of /*"),
        ("rm -r -f //", "rm on all of //"),
        ("rm -fR /usr", "rm on all of /usr"),
        ("rm -rf /usr/", "rm on all of /usr/"),
        ("rm -rf /home/*", "rm on all of /home/*"),
        ("rm --recursive ~", "rm on all of ~"),
        ("rm -rf ~/", "rm on all of ~/"),
        ("rm -rf ~/*", "rm on all of ~/*"),
        ("rm -rf ~root", "rm on all of ~root"),
        ("rm -rf $HOME", "rm on all of $HOME"),
        ("rm -rf ${HOME}/", "rm on all of ${HOME}/"),
        ("rm -rf .", "rm on all of ."),
        ("rm -rf ./*", "rm on all of ./*"),
        ("rm -rf *", "rm on all of *"),
        ("rm -rf ..", "rm on all of .."),
        ("rm -rf ../../*", "rm on all of ../../*"),
        ("rm -rf x ..", "rm on all of .."),
        ("/bin/rm -rf -- /", "rm on all of /"),
        ("rm --no-preserve-root x", "rm on the root of the file system"),
        ("rm -rf", "rm on what only the shell will know"),
        ("rm -r build ", "rm on what only the shell will know"),
        ("rm -rf /home/me", "rm on all of /home/me"),
        ("find -L ./a / -delete", "find -delete on all of /"),
        ("chmod -R 777 /", "chmod on all of /"),
        ("chown -R me ~", "chown on all of ~"),
        ("chgrp -R me /etc", "chgrp on all of /etc"),
        ("find / -delete", "find -delete on all of /"),
        ("find ~ -name x -delete", "find -delete on all of ~"),
        ("mv ~ /x", "mv of all of ~"),
        ("mv /* /x", "mv of all of /*"),
        ("mv $HOME x", "mv of all of $HOME"),
        ("kill -9 -1", "kill of every process"),
        ("kill -1", "kill of every process"),
        ("shutdown now", "shutdown of this machine"),
        ("/sbin/reboot", "reboot of this machine"),
        ("halt", "halt of this machine"),
        ("poweroff", "poweroff of this machine"),
        ("mkfs.ext4 /dev/sda1", "mkfs.ext4 on a disk"),
        ("mkfs x", "mkfs on a disk"),
        ("wipefs -a x", "wipefs on a disk"),
        ("dd if=x of=/dev/sda", "dd over /dev/sda"),
        ("tee /dev/nvme0n1", "tee over /dev/nvme0n1"),
        ("cp x /dev/disk/by-id/y", "cp over /dev/disk/by-id/y"),
    ],
)
def test_a_command_that_wrecks_more_than_the_workspace_is_told(line: str, what: str) -> None:
    assert catastrophic(line.split(" ")) == what


@pytest.mark.parametrize(
    "line",
    [
        "rm --recurs /", "rm -rf /usr/..", "rm -rf ~/.", "rm -rf /etc/.", "find . / -delete", "mv -f /home /x", "mv -- ~ /x",
        "kill -9 -1 5", "shred /dev/sda", "=rm -rf /", "dd of=//dev/sda",
    ],
)  # fmt: skip
def test_another_spelling_of_it_is_told_too(line: str) -> None:
    assert catastrophic(line.split(" ")) != ""


@pytest.mark.parametrize("line", ["find -- / -delete", "find -O3 / -delete", "find -D x / -delete"])
def test_an_option_of_find_hides_nothing(line: str) -> None:
    assert catastrophic(line.split(" ")) == "find -delete on all of /"


@pytest.mark.parametrize(
    "line",
    [
        "rm x", "rm -rf build", "rm -rf ./build", "rm -f /", "rm -rf a/*", "rm -rf /home/me/project/build", "find . -delete", "find ./ -delete", "find build -name * -delete", "find . -name x", "echo --no-preserve-root",
        "find / -name x", "mv a b", "mv ./a /tmp/x", "mv . x", "kill 1", "kill -9 123", "chmod +x a", "chmod 644 /", "dd if=/dev/zero of=x",
        "tee log", "cp a b", "cp a /dev/null", "ls -R /", "echo reboot", "git rm -r .", "cp -r / x", "mv", "kill", "rm", "find -delete",
    ],
)  # fmt: skip
def test_everyday_commands_are_not_catastrophic(line: str) -> None:
    assert catastrophic(line.split(" ")) == ""


def test_a_redirection_over_a_disk_is_told_and_another_is_not() -> None:
    assert [wrecks(files) for files in (["x", "/dev/sda"], ["/dev/null", "a"], [])] == [
        "/dev/sda",
        "",
        "",
    ]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "word",
    [
        "/" * 200_000 + "x",
        "../" * 100_000 + "x",
        "/a" * 100_000,
        "~" * 200_000 + "/",
        "*" * 100_000,
    ],
)
def test_no_word_makes_it_slow(word: str) -> None:
    assert catastrophic(["ls", "-r", word]) == ""
