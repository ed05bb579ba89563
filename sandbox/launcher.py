"""The first program of each child process: bind the child's life to its parent's, then execute the command.

The launcher runs by path in an isolated interpreter (``python -I -S launcher.py ...``), so it imports only
the standard library. A ``preexec_fn`` of subprocess would not be safe once threads run.
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
    """Prepare this process according to the arguments and replace it with the command.

    :param arguments: in this order:

    - the parent's process id
    - the number of the signal to receive when the parent dies
    - the descriptor of the watchdog's pipe, or empty where the kernel sends that signal
    - the user id to switch to, or empty to keep the user
    - the group id
    - ``override`` or empty, see ``_keep_file_access``
    - the command with its arguments

    :return: an exit status, only when the command could not be started
    """
    parent, death_signal, watchdog, user, group, override, *command = arguments
    if user:
        if override:
            _keep_file_access()
        os.setgroups([])
        os.setgid(int(group))
        os.setuid(int(user))
    if watchdog:
        # The format of `sandbox.watchdog`.
        os.write(int(watchdog), f"+{os.getpid()} {death_signal}\n".encode())
        os.close(int(watchdog))
    else:
        # A change of user clears this setting, so this call comes after.
        _prctl(_PR_SET_PDEATHSIG, int(death_signal))
    if os.getppid() != int(parent):
        return _PARENT_GONE_STATUS  # the parent died before it could be watched
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started: {error.strerror}\n")
    return _NOT_EXECUTABLE_STATUS


def _prctl(option: int, *arguments: int) -> None:
    padded = (option, *arguments, *(0,) * (4 - len(arguments)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(*(ctypes.c_ulong(value) for value in padded)) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} failed")


def _keep_file_access() -> None:
    """Keep root's capability to access files regardless of mode.

    A checkout may lie below a directory that only root may enter, such as root's home. The server must not
    run as root, but its programs and data are there. An ambient capability survives the change of user and
    the exec. PostgreSQL finds its own program with access(2), which respects the capability only with the
    secure bit set.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITY_VERSION_3, 0), 8)
    data = ctypes.create_string_buffer(24)
    if libc.capget(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capget failed")
    # Two triples of effective, permitted and inheritable sets. An ambient capability must be inheritable.
    sets = list(struct.unpack("6I", data.raw))
    sets[2] |= 1 << _CAP_DAC_OVERRIDE
    if libc.capset(header, ctypes.create_string_buffer(struct.pack("6I", *sets), 24)) != 0:
        raise OSError(ctypes.get_errno(), "capset failed")
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE)
    _prctl(_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
