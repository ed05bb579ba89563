"""The first thing a child process runs: it ties its life to its parent's, then becomes the command.

Run by path in an isolated interpreter (``python -I -S launcher.py ...``), so it imports the standard library
alone. A step of its own instead of a ``preexec_fn`` of subprocess, which is not safe once threads run.
"""

import ctypes
import os
import signal
import struct
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_SECUREBITS = 28
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_SECBIT_NO_SETUID_FIXUP = 1 << 2
_CAPABILITY_VERSION_3 = 0x20080522
_CAP_DAC_OVERRIDE = 1
_PARENT_GONE_STATUS = 70  # EX_SOFTWARE of sysexits.h
_NOT_EXECUTABLE_STATUS = 126  # as shells do


def main(arguments: list[str]) -> int:
    """Prepare this process as told and replace it by the command.

    :param arguments: the parent's process id, the number of the signal that this process shall get when the
        parent dies, the user id to become (empty: stay), the group id, ``override`` or nothing (see
        ``_keep_file_access``), then the command and its arguments
    :return: an exit status, only when the command could not be started
    """
    parent, death_signal, user, group, override, *command = arguments
    if user:
        if override:
            _keep_file_access()
        os.setgroups([])
        os.setgid(int(group))
        os.setuid(int(user))
    if sys.platform == "linux":
        # After the change of user, which clears it.
        _prctl(_PR_SET_PDEATHSIG, int(death_signal))
    if os.getppid() != int(parent):
        return _PARENT_GONE_STATUS  # it died before it could be watched
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command[0], command)  # noqa: S606 - that no shell comes between is the point
    except OSError as error:
        sys.stderr.write(f"{command[0]} can't be started: {error.strerror}\n")
    return _NOT_EXECUTABLE_STATUS


def _prctl(option: int, *arguments: int) -> None:
    padded = (option, *arguments, *(0,) * (4 - len(arguments)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(*(ctypes.c_ulong(value) for value in padded)) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} was refused")


def _keep_file_access() -> None:
    """Keep, of root's powers, the one to reach files whatever their mode.

    For a checkout below a directory that only root may enter, as root's home is: the server must not run as
    root, but its programs and data lie in there. An ambient capability survives the change of user and exec;
    the secure bit keeps access(2), by which PostgreSQL looks for its own program, from ignoring it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITY_VERSION_3, 0), 8)
    data = ctypes.create_string_buffer(24)
    if libc.capget(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capget was refused")
    # Two triples of effective, permitted, inheritable; an ambient capability must be inheritable.
    sets = list(struct.unpack("6I", data.raw))
    sets[2] |= 1 << _CAP_DAC_OVERRIDE
    if libc.capset(header, ctypes.create_string_buffer(struct.pack("6I", *sets), 24)) != 0:
        raise OSError(ctypes.get_errno(), "capset was refused")
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE)
    _prctl(_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
