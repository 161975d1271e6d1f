"""Assembles the filter for system calls forbidden to commands."""

from __future__ import annotations

import errno
import platform
import resource
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from handrail.sandbox._kernel import bpf
from handrail.sandbox._values import SandboxUnavailable

_X32: Final = 0x40000000
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_NAMESPACES: Final = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""
_CONNECTED: Final = tuple(
    kind | flags for kind in (1, 5) for flags in (0, 0o4000, 0o2000000, 0o2004000)
)
"""SOCK_STREAM and SOCK_SEQPACKET, with and without SOCK_NONBLOCK and SOCK_CLOEXEC.

They stay connected to their pair. A SOCK_DGRAM socket could be pointed at any daemon's socket.
"""
TAG: Final = resource.RLIMIT_RTTIME  # new sessions keep it too: decision 019
"""The limit marking a command's processes. Once set, a command cannot change it."""
UNIX: Final = 1
INTERNET: Final = (2, 10)
"""AF_INET and AF_INET6: only with a separate network namespace."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """A processor architecture's numbers for the filter."""

    audit: int
    refused: dict[str, int]
    shared: dict[str, int]
    """Memory and queues shared by processes through a number."""
    scheduling: dict[str, int]
    """Calls able to change another process's priority, processors or memory nodes."""
    clone: int
    clone3: int
    ioctl: int
    prlimit: int
    setrlimit: int
    socket: int
    socketpair: int
    unshare: int
    x32: bool = False


_REFUSED: Final = """
    acct add_key adjtimex bpf chroot clock_adjtime clock_settime delete_module fanotify_init
    finit_module fsconfig fsmount fsopen fspick init_module io_uring_enter io_uring_register
    io_uring_setup kcmp kexec_file_load kexec_load keyctl mount mount_setattr move_mount
    open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_vm_readv
    process_vm_writev ptrace quotactl quotactl_fd reboot request_key setdomainname sethostname
    setns settimeofday swapoff swapon syslog umount2 userfaultfd vhangup
""".split()
_X86: Final = """
    163 248 159 321 161 305 227 176 300 313 431 432 430 433 175 426 427 425 312 320 246 250 165 442
    429 304 428 298 438 155 310 311 101 179 443 169 249 171 170 308 164 168 167 103 166 323 153
""".split()
_ARM: Final = """
    89 217 171 280 51 266 112 106 262 273 431 432 430 433 105 426 427 425 272 294 104 219 40 442
    429 265 428 241 438 41 270 271 117 60 443 142 218 162 161 268 170 225 224 116 39 282 58
""".split()
_SHARED: Final = """
    mq_open mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop semtimedop shmat shmctl shmget
""".split()
_SHARED_X86: Final = "240 241 71 68 70 69 66 64 65 220 30 31 29".split()
_SHARED_ARM: Final = "180 181 187 186 188 189 191 190 193 192 196 195 194".split()
_SCHEDULING: Final = """
    migrate_pages move_pages sched_setaffinity sched_setattr sched_setparam sched_setscheduler
    setpriority ioprio_set
""".split()
_SCHEDULING_X86: Final = "256 279 203 314 142 144 141 251".split()
_SCHEDULING_ARM: Final = "238 239 122 274 118 119 140 30".split()
_WHO: Final = {"setpriority": 0, "ioprio_set": 1}
"""Their first argument states what the second identifies. These values mean a process."""

ARCHITECTURES: Final = {
    "Linux x86_64": Architecture(
        audit=0xC000003E,
        refused={n: int(k) for n, k in zip(_REFUSED, _X86, strict=True)}
        | {"ioperm": 173, "iopl": 172},
        shared={n: int(k) for n, k in zip(_SHARED, _SHARED_X86, strict=True)},
        scheduling={n: int(k) for n, k in zip(_SCHEDULING, _SCHEDULING_X86, strict=True)},
        clone=56,
        clone3=435,
        ioctl=16,
        prlimit=302,
        setrlimit=160,
        socket=41,
        socketpair=53,
        unshare=272,
        x32=True,
    ),
    "Linux aarch64": Architecture(
        audit=0xC00000B7,
        refused={n: int(k) for n, k in zip(_REFUSED, _ARM, strict=True)},
        shared={n: int(k) for n, k in zip(_SHARED, _SHARED_ARM, strict=True)},
        scheduling={n: int(k) for n, k in zip(_SCHEDULING, _SCHEDULING_ARM, strict=True)},
        clone=220,
        clone3=435,
        ioctl=29,
        prlimit=261,
        setrlimit=164,
        socket=198,
        socketpair=199,
        unshare=97,
    ),
}


def assemble_filter(families: Collection[int], machine: str = "") -> bytes:
    """Return a filter denying calls no command needs, and sockets from other families.

    A denied call fails with EPERM, as if the user lacked the right. ``clone3`` hides its flags from
    the filter, so it fails as unknown, and libraries fall back to ``clone``. A filter without
    families is for commands without separate namespaces, so other processes' memory, queues and
    scheduling are denied, too.
    """
    machine = machine or f"{platform.system()} {platform.machine()}"
    if machine not in ARCHITECTURES:
        raise SandboxUnavailable(
            f"The sandbox supports {' and '.join(ARCHITECTURES)}, not {machine}."
        )
    here = ARCHITECTURES[machine]
    code = bpf.Program()
    code.load(bpf.ARCHITECTURE)
    code.jump_if_equal(here.audit, otherwise="kill")
    code.load(bpf.NUMBER)
    if here.x32:
        code.jump_if_at_least(_X32, "refuse")
    refused = here.refused if families else here.refused | here.shared
    for number in sorted(refused.values()):
        code.jump_if_equal(number, "refuse")
    code.jump_if_equal(here.clone3, "missing")
    for number, label in _checked_calls(here, alone=bool(families)):
        code.jump_if_equal(number, label)
    code.answer(bpf.ALLOW)
    _check_arguments(code, families)
    for label, what in (
        ("refuse", bpf.ERRNO | errno.EPERM),
        ("missing", bpf.ERRNO | errno.ENOSYS),
        ("kill", bpf.KILL),
    ):
        code.label(label)
        code.answer(what)
    return code.assemble()


def _checked_calls(here: Architecture, *, alone: bool) -> Iterator[tuple[int, str]]:
    """Yield the calls denied by their arguments, and the check's label."""
    yield here.clone, "namespaces"
    yield here.unshare, "namespaces"
    yield here.ioctl, "terminal"
    yield here.prlimit, "prlimit"
    yield here.setrlimit, "setrlimit"
    yield here.socket, "family"
    yield here.socketpair, "pair"
    if not alone:
        for name, number in here.scheduling.items():
            yield number, name if name in _WHO else "own process"


def _check_arguments(code: bpf.Program, families: Collection[int]) -> None:
    """Refuse calls by their arguments. Jumps only go forward, so each check has its own result."""
    code.label("namespaces")
    code.load(bpf.argument_offset(0))
    code.jump_if_any_bit(_NAMESPACES, "refuse", "fine")
    code.label("terminal")
    code.load(bpf.argument_offset(1))
    code.jump_if_equal(_TIOCSTI, "refuse")
    code.jump_if_equal(_TIOCLINUX, "refuse", "fine")
    _check_limits(code)
    _check_scheduling(code)
    code.label("pair")
    code.load(bpf.argument_offset(0))
    code.jump_if_equal(UNIX, otherwise="refuse")
    code.load(bpf.argument_offset(1))
    for kind in _CONNECTED:
        code.jump_if_equal(kind, "fine")
    code.jump("refuse")
    code.label("family")
    code.load(bpf.argument_offset(0))
    for family in families:
        code.jump_if_equal(family, "fine")
    code.jump("refuse")
    code.label("fine")
    code.answer(bpf.ALLOW)


def _check_limits(code: bpf.Program) -> None:
    """Keep the mark unchanged, and limits to the calling process."""
    code.label("prlimit")  # without a pointer to new limits, it only reads
    code.load(bpf.argument_offset(2))
    code.jump_if_equal(0, otherwise="new limits")
    code.load(bpf.argument_offset(2) + bpf.HALF)
    code.jump_if_equal(0, "fine")
    code.label("new limits")  # only for the caller: a limit can kill other processes
    code.load(bpf.argument_offset(0))
    code.jump_if_equal(0, otherwise="refuse")
    code.load(bpf.argument_offset(1))
    code.jump_if_equal(TAG, "refuse", "fine")
    code.label("setrlimit")
    code.load(bpf.argument_offset(0))
    code.jump_if_equal(TAG, "refuse", "fine")


def _check_scheduling(code: bpf.Program) -> None:
    """Keep scheduling to the calling process: changes to others stay after the command."""
    for name, process in _WHO.items():
        code.label(name)
        code.load(bpf.argument_offset(0))
        code.jump_if_equal(process, otherwise="refuse")
        code.load(bpf.argument_offset(1))
        code.jump_if_equal(0, "fine", "refuse")
    code.label("own process")
    code.load(bpf.argument_offset(0))
    code.jump_if_equal(0, "fine", "refuse")
