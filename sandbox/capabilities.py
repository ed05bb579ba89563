"""Features that not every operating system has. Each feature has a portable substitute.

``SANDBOX_PORTABLE=1`` switches these features off, so that Linux runs the same code as macOS. Tests use that.
"""

import os
import sys

_PORTABLE = os.environ.get("SANDBOX_PORTABLE") == "1"

# The kernel sends a signal to a process whose parent dies. Substitute: `sandbox.watchdog`.
HAS_PARENT_DEATH_SIGNAL = sys.platform == "linux" and not _PORTABLE
# A process can look at an ended child without reaping the child. Missing on macOS before Python 3.13.
# Substitute: psutil.
HAS_WAITID = hasattr(os, "waitid") and not _PORTABLE
# The kernel restricts a process to some processors. Substitute: the number of all processors.
HAS_AFFINITY = hasattr(os, "sched_getaffinity") and not _PORTABLE
# An unprivileged process can keep root's access to files. Only a stack that root starts needs this feature. Without a
# substitute: such a stack must lie in a directory that every user may enter.
HAS_AMBIENT_CAPABILITIES = sys.platform == "linux"


def usable_processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if HAS_AFFINITY else os.cpu_count() or 1
