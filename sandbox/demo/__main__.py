"""The entry point of ``make demo``. The exit status is 0 when every step succeeded."""

import os
import sys

from sandbox.configuration import StackError
from sandbox.demo.narrator import DemoFailedError, Narrator
from sandbox.demo.purchase import play
from sandbox.demo.store_opening import play_store_opening
from sandbox.demo.target import found_or_started

_INTERRUPTED_STATUS = 130  # the status that shells use


def main() -> int:
    """Run the demo.

    :return: the exit status
    """
    narrator = Narrator()
    try:
        with found_or_started(os.environ, narrator) as target:
            narrator.say(f"A purchase at {target.api}, from browsing to the release of the money.")
            play(target, narrator)
            play_store_opening(target, narrator)
    except (DemoFailedError, StackError) as error:
        narrator.failed(str(error))
        return 1
    except KeyboardInterrupt:
        narrator.failed("Interrupted.")
        return _INTERRUPTED_STATUS
    return 0


if __name__ == "__main__":
    sys.exit(main())
