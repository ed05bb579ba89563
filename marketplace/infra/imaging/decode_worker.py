"""The program of the process that decodes one picture.

Usage: ``python -I -m marketplace.infra.imaging.decode_worker FORMAT SIZES SECONDS BYTES``.

The process reads the file from standard input. The process writes a line of JSON and then the renditions to standard
output. Before reading, the process limits its memory and CPU time. A timer signal ends a process that exceeds the CPU
time.
"""

import json
import os
import resource
import signal
import sys
import warnings
from collections.abc import Sequence

from marketplace.infra.imaging.formats import FORMATS, Rendition, UnacceptablePictureError
from marketplace.infra.imaging.rendering import render

_ENCODE_CPU_SECONDS = 5.0  # CPU time after decoding


def main(arguments: list[str]) -> int:
    """Re-encode the picture on standard input and write the result to standard output.

    :param arguments: FORMAT is the format's name. SIZES are comma-separated sizes in pixels. SECONDS is the limit of
        CPU time for decoding. BYTES is the limit of address space, including interpreter and libraries.
    :return: the exit status, which is 0 for a refused file, too
    """
    kind = FORMATS[arguments[0]]
    sizes = [int(size) for size in arguments[1].split(",")]
    seconds, space = float(arguments[2]), int(arguments[3])
    # Decoder warnings about a file are not useful.
    warnings.simplefilter("ignore")
    os.nice(5)  # short requests have priority
    if sys.platform == "linux":
        # On other systems the address space says little about the used memory.
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    renditions: Sequence[Rendition] = ()
    try:
        picture = render(
            sys.stdin.buffer,
            kind,
            sizes=sizes,
            on_decoded=lambda: signal.setitimer(signal.ITIMER_PROF, _ENCODE_CPU_SECONDS),
        )
        renditions = picture.renditions
        answer: dict[str, object] = {
            "width": picture.width,
            "height": picture.height,
            "renditions": [
                (item.name, item.content_type, item.width, item.height, len(item.content))
                for item in renditions
            ],
        }
    except UnacceptablePictureError as error:
        answer = {"refused": str(error)}
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.writelines(rendition.content for rendition in renditions)
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
