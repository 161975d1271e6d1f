"""Both ways to open what lies beneath a folder: they agree with one another, and never leave it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.tools._files.openat import best_opener, open_by_kernel, open_by_walk, works
from tools.stage import NAMES, Opener, attacked, descriptors

OPENERS: tuple[Opener, ...] = (open_by_kernel, open_by_walk)

NAME = st.sampled_from(["a", "b", "c"])
STEP = st.sampled_from(["a", "b", "c", "..", ".", ""])
PATH = st.lists(STEP, min_size=1, max_size=5).map("/".join).filter(bool)
TARGET = PATH | st.sampled_from(["/", "/etc/hosts", "{root}", "{root}/a", "../ws/a", "../out/a"])
THING = st.sampled_from(["file", "folder"]) | TARGET.map(lambda target: f"link {target}")
TREE = st.dictionaries(st.lists(NAME, min_size=1, max_size=3).map("/".join), THING, max_size=8)


@pytest.fixture(params=OPENERS)
def opener(request: pytest.FixtureRequest) -> Opener:
    found: Opener = request.param
    return found


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "ws/d").mkdir(parents=True)
    (tmp_path / "ws/f").write_text("inside", encoding="utf-8")
    (tmp_path / "secret").write_text("outside", encoding="utf-8")
    fd = os.open(tmp_path / "ws", NAMES)
    yield fd
    os.close(fd)


def planted(root: Path, things: dict[str, str]) -> None:
    """Make what can be made: a file may stand where a folder should."""
    for name, thing in things.items():
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if thing == "folder":
                path.mkdir()
            elif thing == "file":
                path.touch(exist_ok=False)
            else:
                path.symlink_to(thing.removeprefix("link ").replace("{root}", str(root)))
        except OSError:
            continue


def opened(opener: Opener, root: int, path: str) -> tuple[int, int] | str:
    """What was found, or how it failed."""
    try:
        fd = opener(root, path)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    found = os.fstat(fd)
    os.close(fd)
    return found.st_dev, found.st_ino


def everything(folder: Path) -> set[tuple[int, int]]:
    found = [folder, *folder.rglob("*")]
    return {(one.lstat().st_dev, one.lstat().st_ino) for one in found}


@given(things=TREE, paths=st.lists(PATH, min_size=1, max_size=12))
def test_both_ways_find_the_same_or_fail_alike_and_never_leave(
    things: dict[str, str], paths: list[str]
) -> None:
    with TemporaryDirectory() as made:
        (Path(made) / "ws").mkdir()
        (Path(made) / "out/a").mkdir(parents=True)
        folder = Path(made) / "ws"
        planted(folder, things)
        root = os.open(folder, NAMES)
        kernel = [opened(open_by_kernel, root, path) for path in paths]
        walk = [opened(open_by_walk, root, path) for path in paths]
        inside = everything(folder)
        os.close(root)

    assert walk == kernel
    assert {one for one in kernel if isinstance(one, tuple)} <= inside


def test_what_is_found_is_only_named_and_is_closed_by_a_new_program(
    opener: Opener, root: int
) -> None:
    fd = opener(root, "d/../f")

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.read(fd, 1)
    assert not os.get_inheritable(fd)
    os.close(fd)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("..", "EXDEV"),
        ("../ws/f", "EXDEV"),
        ("d/../../secret", "EXDEV"),
        ("gone", "ENOENT"),
        ("gone/x", "ENOENT"),
        ("gone/../f", "ENOENT"),
        ("f/", "ENOTDIR"),
        ("f/.", "ENOTDIR"),
        ("f/..", "ENOTDIR"),
        ("f/x", "ENOTDIR"),
        ("x" * 256, "ENAMETOOLONG"),
    ],
)
def test_how_a_path_fails(opener: Opener, root: int, path: str, code: str) -> None:
    assert opened(opener, root, path) == code


def test_forty_links_are_followed_and_one_more_is_not(
    opener: Opener, root: int, tmp_path: Path
) -> None:
    for number in range(41):
        (tmp_path / f"ws/h{number}").symlink_to(f"h{number + 1}" if number < 40 else "f")

    assert opened(opener, root, "h1") == opened(opener, root, "f")
    assert opened(opener, root, "h0") == "ELOOP"


def test_a_nul_is_refused_since_c_would_stop_there(opener: Opener, root: int) -> None:
    with pytest.raises(ValueError, match="A path cannot contain a NUL character"):
        opener(root, "f\0/x")


def test_no_descriptor_is_left_open(opener: Opener, root: int, tmp_path: Path) -> None:
    (tmp_path / "ws/l").symlink_to("../secret")
    before = descriptors()

    for path in ("d/../f", "l", "gone", "f/x", "..", "d/../..", "."):
        opened(opener, root, path)

    assert descriptors() == before


def test_a_kernel_that_is_not_sure_is_asked_again_but_not_for_ever(
    root: int, tmp_path: Path
) -> None:
    """Renames nearby make it start again at every step up; a long path has hundreds of them."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    with attacked(tmp_path, "one", "other"):
        found = {opened(open_by_kernel, root, "d/../" * 800 + "f") for _ in range(1_000)}

    assert found - {"EAGAIN"} == {opened(open_by_kernel, root, "f")}


def test_the_kernel_is_asked_where_it_can_be() -> None:
    assert best_opener() is open_by_kernel


def test_a_way_works_or_does_not() -> None:
    def refused(root: int, path: str) -> int:
        raise OSError(errno.ENOSYS, "no such call")

    assert [works(one) for one in (open_by_kernel, open_by_walk, refused)] == [True, True, False]
