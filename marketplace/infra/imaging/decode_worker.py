"""The process that decodes one picture.

Called as ``python -I -m marketplace.infra.imaging.decode_worker FORMAT SIZES SECONDS BYTES``.

The file is its standard input. On standard output it answers a line of JSON and then the renditions one after
the other. It limits itself before it reads a byte: memory, and processor time by a timer whose signal ends it.
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

_ENCODE_CPU_SECONDS = 5.0  # of processor time, when all is decoded


def main(arguments: list[str]) -> int:
    """Draw the picture on standard input, and write what came of it.

    :param arguments: the format's name; the sizes with commas between them; seconds of processor time that
        the decoding may take; bytes of address space, what the interpreter and its libraries map included
    :return: the exit status, 0 also for a file that is refused
    """
    kind = FORMATS[arguments[0]]
    sizes = [int(size) for size in arguments[1].split(",")]
    seconds, space = float(arguments[2]), int(arguments[3])
    # What a decoder finds odd about a file is nobody's concern.
    warnings.simplefilter("ignore")
    os.nice(5)  # requests that are answered in a millisecond go first
    if sys.platform == "linux":
        # Elsewhere what is mapped says nothing of what is used.
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
