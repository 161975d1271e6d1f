"""Workspace: what a model's string can mean, what it says it touches, and what it never opens."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    Deny,
    Executor,
    FailureKind,
    HandrailError,
    Refused,
    Result,
    ToolFailed,
    Toolset,
    tool,
    writes_file,
)
from handrail.permissions import Pending
from handrail.policy import Rulebook
from handrail.tools import Workspace
from tools.files.test_openat import OPENERS
from tools.stage import NAMES, Opener, descriptors, kind, results, toolset


@pytest.fixture(params=OPENERS)
def opener(request: pytest.FixtureRequest) -> Opener:
    found: Opener = request.param
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with something beside it."""
    made = tmp_path / "ws"
    (made / "src").mkdir(parents=True)
    (made / "ok").write_text("x", encoding="utf-8")
    (made / "src/main.py").write_text("pass", encoding="utf-8")
    (tmp_path / "secret").write_text("SECRET", encoding="utf-8")
    return made


def said(root: Path, *paths: str) -> list[str]:
    """What a model reads when it reads these."""
    return [f"{kind(one)}: {one.text}" for one in read(root, *paths)]


def read(root: Path, *paths: str) -> list[object]:
    tools = toolset(Workspace(root))
    return list(results(tools, *(("read", {"file_path": path}) for path in paths)))


# ---------------------------------------------------------------- spelling


def test_a_path_is_relative_to_the_root_or_begins_with_it(root: Path, tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(root)
    workspace = Workspace(tmp_path / "other")

    assert workspace.root == str(root)
    assert repr(workspace) == f"Workspace({str(root)!r})"
    assert {
        path: workspace.inside(path.replace("{ws}", str(root)).replace("{tmp}", str(tmp_path)))
        for path in ("ok", "./ok", "src/../ok", "{ws}/ok", "{ws}//ok", "{ws}", "{tmp}/other/ok")
    } == {
        "ok": "ok",
        "./ok": "./ok",
        "src/../ok": "src/../ok",
        "{ws}/ok": "ok",
        "{ws}//ok": "ok",
        "{ws}": ".",
        "{tmp}/other/ok": "ok",
    }


def test_the_root_of_the_file_system_can_be_a_workspace() -> None:
    workspace = Workspace("/", whole_home=True)

    assert [workspace.inside(path) for path in ("/etc/hosts", "etc/hosts", "/")] == [
        "etc/hosts",
        "etc/hosts",
        ".",
    ]
    with workspace.folder("/etc") as found:
        assert found.real == "etc"


def test_a_home_folder_is_no_workspace_unless_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "link").symlink_to(home)

    for root in (home, tmp_path, tmp_path / "link", "/"):
        with pytest.raises(HandrailError) as refused:
            Workspace(root)
        assert str(refused.value) == (
            f"{Path(root).resolve()} is your home folder or contains it: tools could change what "
            "runs when you log in. Use a folder inside it, or pass whole_home=True to allow that."
        )
    roots = [Workspace(home / "project").root, Workspace(home, whole_home=True).root]
    monkeypatch.setenv("HOME", "/nowhere")
    roots.append(Workspace(home).root)
    assert roots == [f"{home}/project", str(home), str(home)]


def test_a_root_that_is_not_there_is_an_error_of_the_program(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Workspace(tmp_path / "gone")


def test_what_is_refused_by_its_spelling_is_refused_in_words(root: Path) -> None:
    paths = [
        "",
        "ok\0",
        "x" * 4097,
        "a/" * 256 + "x",
        "/etc/passwd",
        "~/.ssh/id_rsa",
        "$HOME/x",
        "file:///etc/passwd",
        "\\\\host\\share",
        "C:secret",
        "..",
        "src/../../secret",
    ]

    assert said(root, *paths) == snapshot(
        [
            "failed: The path is empty. Pass the path of a file in the workspace.",
            """\
bad_args: Not run: invalid arguments.
- file_path: the text has a NUL character.
Fix these and call again.\
""",
            "failed: The path is too long (4,097 bytes). Use a shorter one.",
            "failed: The path is too long (513 bytes). Use a shorter one.",
            "denied: Not run: '/etc/passwd' is outside the workspace. Use a path inside it.",
            "denied: Not run: '~/.ssh/id_rsa' is outside the workspace: '~' is not expanded. Use a path inside it.",
            "denied: Not run: '$HOME/x' is outside the workspace: variables are not expanded. Use a path inside it.",
            "denied: Not run: 'file:///etc/passwd' is outside the workspace: it is a URL. Use a path inside it.",
            "denied: Not run: '\\\\\\\\host\\\\share' is outside the workspace: it starts with a backslash. Use a path inside it.",
            "denied: Not run: 'C:secret' is outside the workspace: it starts with a drive letter. Use a path inside it.",
            "denied: Not run: '..' is outside the workspace. Use a path inside it.",
            "denied: Not run: 'src/../../secret' is outside the workspace. Use a path inside it.",
        ]
    )


def test_a_lone_surrogate_is_no_path(root: Path) -> None:
    """No such text comes in through the front door; a program of one's own might let it."""
    with pytest.raises(ToolFailed, match="characters that a file name cannot have"):
        Workspace(root).inside("a\ud800")


@given(st.text(alphabet="./a~$\\:%é \0", max_size=12))
def test_whatever_the_spelling_what_is_inside_never_climbs_out(path: str) -> None:
    with suppress(Refused, ToolFailed):
        inside = Workspace("/tmp").inside(path)  # noqa: S108

        assert not f"{os.path.normpath(inside)}/".startswith(("/", "../"))


# ---------------------------------------------------------------- what is there


def test_what_cannot_be_read_is_said_in_words(root: Path, opener: Opener) -> None:
    os.mkfifo(root / "pipe")
    (root / "circle").symlink_to("circle")
    (root / "out").symlink_to("../secret")
    (root / "absolute").symlink_to(root / "ok")
    (root / "dangling").symlink_to("gone")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(root / "socket"))
        workspace = Workspace(root, opener=opener)
        paths = ["gone", "src", ".", "pipe", "socket", "circle", "out", "absolute", "dangling"]
        paths += ["ok/", "ok/x", "gone/x", "x" * 256]
        calls = [("read", {"file_path": path}) for path in paths]
        told = [f"{kind(one)}: {one.text}" for one in results(toolset(workspace), *calls)]

    assert told == snapshot(
        [
            "failed: 'gone' does not exist. Use glob to find it.",
            """\
None: main.py
[0 folders and 1 file.]\
""",
            """\
None: absolute (link)
circle (link)
dangling (link)
ok
out (link)
pipe
socket
src/
[1 folder and 7 files.]\
""",
            "failed: 'pipe' is not a regular file but a device, pipe or socket.",
            "failed: 'socket' is not a regular file but a device, pipe or socket.",
            "failed: 'circle' is a loop of links.",
            "denied: Not run: 'out' is or passes through a link out of the workspace.",
            "denied: Not run: 'absolute' is or passes through a link out of the workspace.",
            "failed: 'dangling' does not exist. Use glob to find it.",
            "failed: 'ok/' uses a file as a folder.",
            "failed: 'ok/x' uses a file as a folder.",
            "failed: 'gone/x' does not exist. Use glob to find it.",
            "failed: 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' is too long for a path.",
        ]
    )


def test_links_inside_are_followed(root: Path, opener: Opener) -> None:
    (root / "l").symlink_to("src")
    (root / "m").symlink_to("l/main.py")
    workspace = Workspace(root, opener=opener)

    found = []
    for path in ("l/main.py", "m", "l/../ok"):
        with workspace.file(path) as file:
            found.append((file.real, os.read(file.fd, 9), file.stat.st_size))

    assert found == [
        ("src/main.py", b"pass", 4),
        ("src/main.py", b"pass", 4),
        ("ok", b"x", 1),
    ]


def test_a_folder_is_open_and_a_file_is_none(root: Path) -> None:
    workspace = Workspace(root)

    with workspace.folder() as top, workspace.folder("src") as below:
        assert (top.real, sorted(os.listdir(top.fd))) == ("", ["ok", "src"])  # noqa: PTH208
        assert (below.real, os.listdir(below.fd)) == ("src", ["main.py"])  # noqa: PTH208
    with (
        pytest.raises(ToolFailed, match=r"^'ok' is a file, not a folder. Use read to see it"),
        workspace.folder("ok"),
    ):
        pass


def test_names_that_come_close_are_suggested(root: Path) -> None:
    for name in ("notes.txt", "notes.md", "note.txt", "notes_secret.txt", "nötes.txt", "other"):
        (root / name).touch()
    (root / "notes\n\x1b[2J.txt").touch()
    Path(os.fsdecode(os.fsencode(root) + b"/nots\xff.tx")).touch()
    workspace = Workspace(root, hides=lambda path: path == "notes_secret.txt")
    paths = ["notez.txt", "notes[2J.txt", "notss.tx", "nots.tx", "src/mein.py", "zzzzz", "goner/a"]

    told = results(toolset(workspace), *(("read", {"file_path": path}) for path in paths))

    assert [one.text for one in told] == snapshot(
        [
            "'notez.txt' does not exist. Did you mean 'note.txt', 'notes.txt' or 'nötes.txt'?",
            "'notes[2J.txt' does not exist. Did you mean 'notes\\n\\x1b[2J.txt', 'notes.txt' or 'note.txt'?",
            "'notss.tx' does not exist. Did you mean 'nots\\udcff.tx', 'notes.txt' or 'note.txt'?",
            "'nots.tx' does not exist. Did you mean 'nots\\udcff.tx', 'notes.txt' or 'note.txt'?",
            "'src/mein.py' does not exist. Did you mean 'src/main.py'?",
            "'zzzzz' does not exist. Use glob to find it.",
            "'goner/a' does not exist. Use glob to find it.",
        ]
    )
    "".join(one.text for one in told).encode()


def test_a_suggested_path_can_be_copied(tmp_path: Path) -> None:
    for name in (
        "src/util/helpers.py",
        "src/helpers.py",
        "lib/deep/helpers.py",
        "other/helpers.py",
        "node_modules/x/conf.js",
        ".cache/conf.js",
        "Readme.md",
        "secret/key.pem",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "dangling").symlink_to("nothing")
    workspace = Workspace(tmp_path, hides=lambda path: path.startswith("secret"))
    paths = [
        "helpers.py",
        "util/helpers.py",
        "./src/util/../util/helper.py",
        "README.md",
        "conf.js",
        "key.pem",
        "dangling",
        "src",
    ]

    told = results(toolset(workspace), *(("read", {"file_path": path}) for path in paths))

    assert [one.text for one in told] == snapshot(
        [
            "'helpers.py' does not exist. Did you mean 'other/helpers.py', 'src/helpers.py' or 'lib/deep/helpers.py'?",
            "'util/helpers.py' does not exist. Did you mean 'src/util/helpers.py'?",
            "'./src/util/../util/helper.py' does not exist. Did you mean 'src/util/helpers.py'?",
            "'README.md' does not exist. Did you mean 'Readme.md'?",
            "'conf.js' does not exist. Use glob to find it.",
            "'key.pem' does not exist. Use glob to find it.",
            "'dangling' does not exist. Use glob to find it.",
            """\
helpers.py
util/
[1 folder and 1 file.]\
""",
        ]
    )


def test_the_search_for_a_name_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.tools._files.similar_paths._MAX_ENTRIES", 10)
    for number in range(20):
        (tmp_path / f"{number:02}").mkdir()
    (tmp_path / "19" / "hidden.py").touch()

    [told] = results(toolset(Workspace(tmp_path)), ("read", {"file_path": "hidden.py"}))

    assert told.text == "'hidden.py' does not exist. Use glob to find it."


@pytest.mark.parametrize("mode", [0o000, 0o200])
def test_what_may_not_be_opened_is_said(tmp_path: Path, mode: int) -> None:
    """A process of its own, which first gives up the right to open everything, if it has it."""
    code = """if True:
        import ctypes, os, sys
        from handrail import ToolFailed
        from handrail.tools import Workspace
        if not os.geteuid():
            ctypes.CDLL(None).setfsuid(65534)
        workspace = Workspace(sys.argv[1])
        for path in sys.argv[2:]:
            try:
                with workspace.file(path):
                    print("open")
            except ToolFailed as error:
                print(error)
        if not os.geteuid():
            ctypes.CDLL(None).setfsuid(0)  # what is left to do, it may do again
    """
    tmp_path.joinpath("shut").mkdir()
    tmp_path.joinpath("f").write_text("x", encoding="utf-8")
    tmp_path.joinpath("ok").write_text("x", encoding="utf-8")
    tmp_path.joinpath("shut").chmod(mode)
    tmp_path.joinpath("f").chmod(mode)
    for above in [tmp_path, *tmp_path.parents][:3]:
        above.chmod(0o755)
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", code, str(tmp_path), "f", "shut/x", "ok"],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )

    forbids = "cannot be opened: permission denied."
    assert done.stdout.splitlines() == [f"'f' {forbids}", f"'shut/x' {forbids}", "open"]


def test_a_file_that_is_replaced_again_and_again_while_it_is_opened_is_not_there(
    root: Path,
) -> None:
    """An opener that always comes too late, as beside an editor that saves without end."""

    def late(top: int, path: str) -> int:
        with open(root / "gone", "wb"):  # noqa: PTH123
            fd = os.open("gone", NAMES, dir_fd=top)
        (root / "gone").unlink()
        return fd

    before = descriptors()
    workspace = Workspace(root, opener=late)
    with pytest.raises(ToolFailed, match="does not exist"), workspace.file("ok"):
        pass

    assert descriptors() == before + 1


def test_a_workspace_that_was_removed_says_that_nothing_is_there(root: Path) -> None:
    workspace = Workspace(root)
    shutil.rmtree(root)
    calls = ("read", {"file_path": "ok"}), ("write", {"file_path": "d/ok", "content": "x"})

    told = results(toolset(workspace), *calls)

    assert [f"{kind(one)}: {one.text}" for one in told] == snapshot(
        [
            "failed: 'ok' does not exist. Use glob to find it.",
            "failed: 'd/ok' does not exist. Use glob to find it.",
        ]
    )
    assert not root.exists()


def test_what_was_moved_out_of_the_root_is_refused(root: Path, tmp_path: Path) -> None:
    def late(top: int, path: str) -> int:
        return os.open(tmp_path / "secret", NAMES)

    workspace = Workspace(root, opener=late)

    with pytest.raises(Refused, match="was moved out of the workspace"), workspace.file("ok"):
        pass


def test_a_workspace_that_is_gone_holds_no_descriptor(root: Path) -> None:
    before = descriptors()
    workspace = Workspace(root)
    opened = descriptors()
    del workspace

    assert (opened, descriptors()) == (before + 1, before)


def test_nothing_is_left_open_by_what_fails(root: Path, opener: Opener) -> None:
    os.mkfifo(root / "pipe")
    (root / "out").symlink_to("../secret")
    tools = toolset(Workspace(root, opener=opener))
    calls = [
        (name, {"file_path": path, **args})
        for path in ("ok", "src", "src/", "pipe", "out", "gone/../x", "ok/x", "..", ".")
        for name, args in (
            ("read", {}),
            ("write", {"content": "new"}),
            ("edit", {"old_string": "zz", "new_string": "y"}),
        )
    ]
    before = descriptors()

    results(tools, *calls)

    assert descriptors() == before


# ---------------------------------------------------------------- what a call touches


def test_a_call_touches_what_it_spells_and_where_that_leads(root: Path) -> None:
    (root / "l").symlink_to("src")
    (root / "out").symlink_to("../secret")
    (root / "dangling").symlink_to("gone")
    workspace = Workspace(root)
    paths = ["ok", f"{root}/ok", "l/main.py", "l/../ok", "l/new/x.py", "new/x", ".", "out", "l"]
    paths += ["dangling", "../x", "/etc/passwd", "~/x", "ok/x", "", "gone/../ok"]

    assert {
        path.replace(str(root), "{ws}"): " + ".join(map(str, workspace.access(WRITE, path)))
        for path in paths
    } == snapshot(
        {
            "ok": "write file:ok",
            "{ws}/ok": "write file:ok",
            "l/main.py": "write file:l/main.py + write file:src/main.py",
            "l/../ok": "write file:ok",
            "l/new/x.py": "write file:l/new/x.py + write file:src/new/x.py",
            "new/x": "write file:new/x",
            ".": "write file:",
            "out": "write file:out",
            "l": "write file:l + write file:src",
            "dangling": "write file:dangling",
            "../x": "write file:../x",
            "/etc/passwd": "write file:/etc/passwd",
            "~/x": "write file:~/x",
            "ok/x": "write file:ok/x",
            "": "write file:",
            "gone/../ok": "write file:ok",
        }
    )


def test_what_is_hidden_is_what_the_policy_says(root: Path) -> None:
    assert [Workspace(root).is_hidden("a"), Workspace(root, hides="a".__eq__).is_hidden("a")] == [
        False,
        True,
    ]


def test_tools_that_pass_over_what_is_hidden_say_so(root: Path) -> None:
    assert (Workspace(root).tags, Workspace(root, hides="a".__eq__).tags) == ((), ("filtered",))


def asks(_call: CheckedCall) -> Decision:
    return Ask("Really?")


USES = pytest.mark.parametrize(
    ("name", "args"),
    [
        ("read", {}),
        ("write", {"content": "new"}),
        ("edit", {"old_string": "pass", "new_string": "fail"}),
    ],
)


@USES
@pytest.mark.parametrize("judged", ["ok", "src", "."])
def test_a_link_that_leads_elsewhere_since_it_was_judged_is_refused(
    root: Path, judged: str, name: str, args: dict[str, str]
) -> None:
    """An earlier call of the same turn swaps it. What was judged may have been a folder above."""
    (root / "l").symlink_to(judged)

    @tool(touches=lambda: writes_file("l"))
    def relink() -> None:
        """Let the link lead elsewhere."""
        (root / "l").unlink()
        (root / "l").symlink_to("src/main.py")

    tools = Toolset(*toolset(Workspace(root)), relink)

    async def turn() -> list[Result]:
        async with Executor(tools) as executor:
            calls = [Call("relink", {}, "c1"), Call(name, {"file_path": "l", **args}, "c2")]
            return await executor.run_all(calls)

    [_, done] = anyio.run(turn)

    assert kind(done) is FailureKind.DENIED
    assert done.text == snapshot(
        "Not run: 'l' leads to another file than when the call was checked. Check what changed, then call again."
    )
    assert (root / "src/main.py").read_text(encoding="utf-8") == "pass"


@USES
def test_a_link_that_is_swapped_while_a_question_is_open_is_asked_about_again(
    root: Path, name: str, args: dict[str, str]
) -> None:
    (root / "l").symlink_to("ok")
    asked: list[str] = []

    async def swaps(pending: Pending) -> Allow | Deny:
        asked.append(str(pending.accesses[-1]).partition(" ")[2])
        if len(asked) > 1:
            return Deny("no")
        (root / "l").unlink()
        (root / "l").symlink_to("src/main.py")
        return Allow()

    tools = toolset(Workspace(root))
    [done] = results(tools, (name, {"file_path": "l", **args}), policy=asks, approvals=swaps)

    assert (kind(done), asked) == (FailureKind.DENIED, ["file:ok", "file:src/main.py"])
    assert (root / "src/main.py").read_text(encoding="utf-8") == "pass"


def test_what_is_written_as_judged_is_written(root: Path) -> None:
    """The control: nothing is swapped."""
    (root / "l").symlink_to("ok")

    async def agrees(_pending: Pending) -> Allow:
        return Allow()

    tools = toolset(Workspace(root))
    args = {"file_path": "l", "old_string": "x", "new_string": "y"}
    [done] = results(tools, ("edit", args), policy=asks, approvals=agrees)

    assert done.failure is None
    assert (root / "ok").read_text(encoding="utf-8") == "y"


def test_a_floor_is_not_passed_by_a_link(root: Path) -> None:
    """A rulebook that asks about conftest.py asks about a link to it, too."""
    (root / "conftest.py").write_text("x", encoding="utf-8")
    (root / "l").symlink_to("conftest.py")
    tools = toolset(Workspace(root))
    calls = [
        ("edit", {"file_path": path, "old_string": "x", "new_string": "y"})
        for path in ("l", "conftest.py", "ok")
    ]

    done = results(tools, *calls, policy=Rulebook(mode="edits"))

    assert [kind(one) for one in done] == [FailureKind.DENIED, FailureKind.DENIED, None]


def test_without_a_judgement_there_is_nothing_to_hold_to(root: Path) -> None:
    workspace = Workspace(root)
    told: list[str] = []
    for accesses in (
        (),
        (Access(READ, "*"),),
        (Access(READ, "file:ok"),),
        (Access(READ, "file:"),),
    ):
        context = Context(call_id="c", idempotency_key="k", accesses=accesses)
        try:
            with workspace.file("ok", context) as found:
                told.append(found.real)
        except HandrailError as error:
            told.append(type(error).__name__)

    assert told == ["ok", "ok", "ok", "Refused"]


def test_the_same_name_elsewhere_is_suggested_before_another_case(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("Readme.md", "docs/README.md"):
        (tmp_path / name).write_text("", encoding="utf-8")
    (told,) = results(toolset(Workspace(tmp_path)), ("read", {"file_path": "README.md"}))

    assert told.text == "'README.md' does not exist. Did you mean 'docs/README.md'?"
