"""A program that tries to get out of where it runs. The standard library only; runs anywhere.

It is told by JSON where the host's canaries are, tries everything, and prints as JSON what it
believes it could do. What really happened, the host looks up itself.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOLD: dict[str, Any] = json.loads(sys.argv[1])
OUT, WS = Path(TOLD["out"]), Path(TOLD["ws"])
HOST = int(TOLD["pid"])
ARM = platform.machine() == "aarch64"
LIBC = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "add_key": (248, 217),
    "bpf": (321, 280),
    "io_uring_setup": (425, 425),
    "mount": (165, 40),
    "open_by_handle_at": (304, 265),
    "perf_event_open": (298, 241),
    "process_vm_readv": (310, 270),
    "ptrace": (101, 117),
    "setns": (308, 268),
    "pivot_root": (155, 41),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}


def syscall(name: str | int, *args: Any) -> int:
    """What a system call gives; the negative error where it fails."""
    number = NUMBERS[name][ARM] if isinstance(name, str) else name
    got = int(LIBC.syscall(ctypes.c_long(number), *args))
    return got if got >= 0 else -ctypes.get_errno()


def forked(work: Callable[[], object]) -> str:
    """Whether work succeeds in a process of its own, which it may lose or spoil."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:  # noqa: BLE001
            os._exit(2)
    _, status = os.waitpid(child, 0)
    return "done" if status == 0 else f"refused {status}"


def inside(number: str) -> Path:
    """The canaries of one probe."""
    return OUT / number


def write(number: str) -> str:
    (inside(number) / "x").write_text("x", encoding="utf-8")
    return "done"


def overwrite(number: str) -> str:
    (inside(number) / "secret").write_text("x", encoding="utf-8")
    return "done"


def unlink(number: str) -> str:
    (inside(number) / "secret").unlink()
    return "done"


def chmod(number: str) -> str:
    (inside(number) / "secret").chmod(0o777)
    return "done"


def utime(number: str) -> str:
    os.utime(inside(number) / "secret", (1, 1))
    return "done"


def setxattr(number: str) -> str:
    os.setxattr(inside(number) / "secret", "user.probe", b"1")
    return "done"


def through_link(number: str) -> str:
    (WS / "l").symlink_to(inside(number))
    (WS / "l" / "x").write_text("x", encoding="utf-8")
    return "done"


def hardlink(number: str) -> str:
    (WS / "h").hardlink_to(inside(number) / "secret")
    return "done"


def rename_out(number: str) -> str:
    (WS / "moving").write_text("x", encoding="utf-8")
    (WS / "moving").rename(inside(number) / "x")
    return "done"


def through_root(number: str) -> str:
    Path(f"/proc/{HOST}/root{inside(number)}/x").write_text("x", encoding="utf-8")
    return "done"


def through_cwd(number: str) -> str:
    Path(f"/proc/{TOLD['victim']}/cwd/{number}/x").write_text("x", encoding="utf-8")
    return "done"


def tcp(number: str) -> str:
    with socket.create_connection(("127.0.0.1", TOLD["tcp"]), 2) as made:
        made.sendall(number.encode())
    return "done"


def curl(number: str) -> str:
    made = subprocess.run(  # noqa: S603  it is there to misbehave
        [
            "/usr/bin/curl",
            "-sS",
            "--noproxy",
            "*",
            "-m",
            "2",
            f"http://127.0.0.1:{TOLD['tcp']}/{number}",
        ],
        capture_output=True,
        check=False,
    )
    return made.stderr.decode(errors="replace")


def dev_tcp(number: str) -> str:
    line = f"echo {number} > /dev/tcp/127.0.0.1/{TOLD['tcp']}"
    words = ["/bin/bash", "-c", line]
    return str(subprocess.run(words, capture_output=True, check=False).returncode)  # noqa: S603


def udp(number: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.sendto(number.encode(), ("127.0.0.1", TOLD["udp"]))
    return "done"


def dns(number: str) -> str:
    """A question to the host's name server, which here is the UDP canary."""
    return udp(number)


def icmp(_number: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP):
        return "done"


def unix(path: str, number: str) -> str:
    with socket.socket(socket.AF_UNIX) as made:
        made.settimeout(2)
        made.connect(path)
        made.sendall(number.encode())
    return "done"


def path_socket(number: str) -> str:
    return unix(TOLD["unix"], number)


def docker_socket(number: str) -> str:
    return unix(TOLD["docker"], number)


def abstract_socket(number: str) -> str:
    return unix("\0" + TOLD["abstract"], number)


def agent_socket(number: str) -> str:
    return unix(os.environ["SSH_AUTH_SOCK"], number)


def odd_families(_number: str) -> str:
    for family, kind in ((16, socket.SOCK_RAW), (17, socket.SOCK_RAW), (40, socket.SOCK_STREAM)):
        try:
            socket.socket(family, kind).close()
        except OSError:
            continue
        return "done"
    return "refused"


def io_uring(_number: str) -> str:
    buffer = ctypes.create_string_buffer(120)
    return "done" if syscall("io_uring_setup", 1, buffer) >= 0 else "refused"


def ptrace(_number: str) -> str:
    def attach() -> bool:
        if syscall("ptrace", 16, ctypes.c_long(TOLD["victim"]), None, None) != 0:
            return False
        os.waitpid(TOLD["victim"], 0x40000000)
        return syscall("ptrace", 17, ctypes.c_long(TOLD["victim"]), None, None) == 0

    return forked(attach)


def process_vm(_number: str) -> str:
    into = ctypes.create_string_buffer(8)
    local = (ctypes.c_uint64 * 2)(ctypes.addressof(into), 8)
    remote = (ctypes.c_uint64 * 2)(TOLD["stack"], 8)
    victim = ctypes.c_long(TOLD["victim"])
    got = syscall(
        "process_vm_readv", victim, local, ctypes.c_ulong(1), remote, ctypes.c_ulong(1), 0
    )
    return "done" if got == 8 else f"refused {got}"


def environ(_number: str) -> str:
    return Path(f"/proc/{TOLD['victim']}/environ").read_text(encoding="utf-8")


def pids(_number: str) -> str:
    return "done" if Path(f"/proc/{TOLD['victim']}").exists() else "refused"


def kill(_number: str) -> str:
    os.kill(TOLD["target"], signal.SIGKILL)
    return "done"


def userns(_number: str) -> str:
    return forked(lambda: syscall("unshare", 0x10000000) == 0)


def mount(_number: str) -> str:
    where = os.fsencode(WS / "mounted")
    (WS / "mounted").mkdir(exist_ok=True)

    def work() -> bool:
        syscall("unshare", 0x00020000)
        return syscall("mount", b"none", where, b"tmpfs", ctypes.c_ulong(0), None) == 0

    return forked(work)


def setns(_number: str) -> str:
    def work() -> bool:
        found = os.open("/proc/self/ns/uts", os.O_RDONLY)
        return syscall("setns", found, 0) == 0 or syscall("pivot_root", b"/", b"/") != -errno.EPERM

    return forked(work)


def mknod(_number: str) -> str:
    os.mknod(WS / "device", stat.S_IFBLK | 0o600, os.makedev(7, 99))
    return "done"


def status(field: str) -> str:
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(line.split()[1] for line in text.splitlines() if line.startswith(field))


def setuid(_number: str) -> str:
    return "refused" if status("NoNewPrivs") == "1" else "done"


def capabilities(_number: str) -> str:
    return "refused" if int(status("CapEff"), 16) == int(status("CapPrm"), 16) == 0 else "done"


def tiocsti(_number: str) -> str:
    ours, theirs = os.openpty()

    def work() -> bool:
        os.setsid()
        fcntl.ioctl(theirs, 0x540E, 0)
        fcntl.ioctl(theirs, 0x5412, b"x")
        return True

    done = forked(work)
    os.close(ours)
    os.close(theirs)
    return done


def keyring(_number: str) -> str:
    got = syscall("add_key", b"user", b"probe", b"x", ctypes.c_ulong(1), ctypes.c_long(-2))
    return "done" if got >= 0 else "refused"


def bpf(_number: str) -> str:
    asked = (ctypes.c_uint32 * 18)(2, 4, 4, 1)
    tried = [syscall("bpf", ctypes.c_long(0), asked, ctypes.c_long(72)), syscall("userfaultfd", 1)]
    return "done" if max(tried) >= 0 else "refused"


def by_handle(_number: str) -> str:
    handle = (ctypes.c_uint32 * 4)(8, 1, 2, 0)
    got = syscall("open_by_handle_at", ctypes.c_long(-100), handle, 0)
    return "refused" if got == -errno.EPERM else "done"


def x32(_number: str) -> str:
    return "done" if not ARM and syscall(0x40000000 + 39) > 0 else "refused"


def compat(_number: str) -> str:
    """A system call of the 32-bit kind: mov eax, 20 (getpid); int 0x80; ret."""

    def work() -> bool:
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
        at = ctypes.addressof(ctypes.c_char.from_buffer(code))
        return ctypes.CFUNCTYPE(ctypes.c_int)(at)() == os.getpid()

    return "refused" if ARM else forked(work)


def descriptors(_number: str) -> str:
    found = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]  # noqa: PTH115
    return "done" if str(OUT / "held-open") in found else "refused"


def temporary(_number: str) -> str:
    Path("/tmp", TOLD["nonce"]).write_text("x", encoding="utf-8")  # noqa: S108
    return "done"


def devices(_number: str) -> str:
    known = "core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero console"
    return (
        "done" if {one.name for one in Path("/dev").iterdir()} - set(known.split()) else "refused"
    )


def sysfs(_number: str) -> str:
    settings = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname")
    for path in (*settings, "/proc/sysrq-trigger", "/sys/power/state"):
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError:
            continue
        return "done"
    return "refused"


def venv(_number: str) -> str:
    (WS / ".venv/bin/python").write_text("evil", encoding="utf-8")
    return "done"


def terminal(_number: str) -> str:
    """What a user types, at a terminal that is not the command's own."""
    found = os.open(TOLD["terminal"], os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    return os.read(found, 99).decode()


def priority(_number: str) -> str:
    os.setpriority(os.PRIO_PROCESS, TOLD["scheduled"], 7)
    return "done"


def scheduler(_number: str) -> str:
    os.sched_setscheduler(TOLD["scheduled"], os.SCHED_IDLE, os.sched_param(0))
    return "done"


def lock(_number: str) -> str:
    held = os.open(OUT / "config/handrail/.trust.json.lock", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return "done"


def saved_run(_number: str) -> str:
    return (OUT / "state/handrail/runs/x/state.json").read_text(encoding="utf-8")


def home(_number: str) -> str:
    return (OUT.parent / ".some-agent.json").read_text(encoding="utf-8")


PROBES: dict[str, Callable[[str], str]] = {
    "sandbox-001": write,
    "sandbox-002": overwrite,
    "sandbox-003": unlink,
    "sandbox-004": chmod,
    "sandbox-005": utime,
    "sandbox-006": setxattr,
    "sandbox-007": through_link,
    "sandbox-008": hardlink,
    "sandbox-009": rename_out,
    "sandbox-010": through_root,
    "sandbox-011": through_cwd,
    "sandbox-012": tcp,
    "sandbox-013": curl,
    "sandbox-014": dev_tcp,
    "sandbox-015": udp,
    "sandbox-016": dns,
    "sandbox-017": icmp,
    "sandbox-018": path_socket,
    "sandbox-019": docker_socket,
    "sandbox-020": abstract_socket,
    "sandbox-021": agent_socket,
    "sandbox-022": odd_families,
    "sandbox-023": io_uring,
    "sandbox-024": ptrace,
    "sandbox-025": process_vm,
    "sandbox-026": environ,
    "sandbox-027": pids,
    "sandbox-028": kill,
    "sandbox-029": userns,
    "sandbox-030": mount,
    "sandbox-031": setns,
    "sandbox-032": mknod,
    "sandbox-033": setuid,
    "sandbox-034": capabilities,
    "sandbox-035": tiocsti,
    "sandbox-036": keyring,
    "sandbox-037": bpf,
    "sandbox-038": by_handle,
    "sandbox-039": x32,
    "sandbox-040": compat,
    "sandbox-041": descriptors,
    "sandbox-042": temporary,
    "sandbox-043": devices,
    "sandbox-044": sysfs,
    "sandbox-055": venv,
    "sandbox-056": terminal,
    "sandbox-057": priority,
    "sandbox-058": scheduler,
    "sandbox-059": lock,
    "sandbox-060": saved_run,
    "sandbox-061": home,
}


def tried(number: str) -> str:
    """What one probe says, if only that it was refused."""
    try:
        return PROBES[number](number)
    except Exception as error:  # noqa: BLE001  each is tried, whatever became of the last
        return f"refused {type(error).__name__} {error}"


if __name__ == "__main__":
    print(json.dumps({number: tried(number) for number in PROBES}))  # noqa: T201
