"""The program of the process that checks one audio or video file.

Usage: ``python -I -m marketplace.infra.imaging.recording_worker CONTAINER SECONDS BYTES``.

The process reads the file from standard input, and writes a line of JSON: the members of ``Recording``, or
``{"refused": WHY}``. The JPEG of a video's poster frame follows, if there is one.
"""

import io
import json
import os
import resource
import signal
import sys
from typing import IO

import av
import av.logging
from PIL import Image

from marketplace.infra import texts
from marketplace.infra.imaging.formats import RECORDING_CONTAINERS

MAX_SECONDS = 600
POSTER_PIXELS = 640  # longest side
MAX_PIXELS = 4096 * 2304
_MAX_STREAMS = 8
_VIDEO_CODECS = frozenset({"h264", "hevc", "vp8", "vp9", "av1", "libdav1d", "mpeg4", "h263"})
_AUDIO_CODECS = frozenset(
    {"aac", "opus", "libopus", "vorbis", "mp3", "mp3float", "amrnb", "amrwb", "amr_nb", "amr_wb", "pcm_s16le"}
)


class UnacceptableRecordingError(Exception):
    """The file cannot be accepted. The message explains the reason to the sender."""


def check_recording(file: IO[bytes], container: str) -> tuple[dict[str, object], bytes]:
    """Parse the container, check codecs, size and duration, and decode the first frame of each kind.

    :param container: a key of ``RECORDING_CONTAINERS``, detected from the first bytes
    :return: ``duration_ms``, ``width`` and ``height`` (none for audio), and the poster frame (empty for audio)
    :raises UnacceptableRecordingError: the file is damaged, too long or too large, or has another codec
    """
    demuxer = RECORDING_CONTAINERS[container].demuxer
    try:
        # The name of the demuxer keeps formats that read other files (such as playlists) from being detected.
        with av.open(file, mode="r", format=demuxer) as opened:
            return _check_streams(opened)
    except (av.FFmpegError, ValueError, OverflowError, EOFError) as error:
        raise UnacceptableRecordingError(texts.RECORDING_DAMAGED) from error


def _check_streams(opened: av.container.InputContainer) -> tuple[dict[str, object], bytes]:
    _ensure_supported(opened)
    width = height = None
    poster = b""
    if opened.streams.video:
        video = opened.streams.video[0]
        width, height = video.codec_context.width, video.codec_context.height
        if not 0 < width * height <= MAX_PIXELS:
            raise UnacceptableRecordingError(texts.RECORDING_TOO_LARGE.format(limit=MAX_PIXELS / 1_000_000))
        poster = _make_poster(_decode_first(opened, video))
    if opened.streams.audio:
        _decode_first(opened, opened.streams.audio[0])
    milliseconds = _duration_ms(opened)
    if not 0 < milliseconds <= MAX_SECONDS * 1000:
        raise UnacceptableRecordingError(texts.RECORDING_TOO_LONG.format(limit=MAX_SECONDS // 60))
    return {"duration_ms": milliseconds, "width": width, "height": height}, poster


def _ensure_supported(opened: av.container.InputContainer) -> None:
    videos, audios = opened.streams.video, opened.streams.audio
    if not (videos or audios) or len(opened.streams) > _MAX_STREAMS or len(videos) > 1:
        raise UnacceptableRecordingError(texts.RECORDING_DAMAGED)
    names = [stream.codec_context.name for stream in videos if stream.codec_context is not None]
    sounds = [stream.codec_context.name for stream in audios if stream.codec_context is not None]
    known = len(names) == len(videos) and len(sounds) == len(audios)
    if not known or not _VIDEO_CODECS.issuperset(names) or not _AUDIO_CODECS.issuperset(sounds):
        raise UnacceptableRecordingError(texts.RECORDING_CODEC)


def _decode_first(opened: av.container.InputContainer, stream: av.VideoStream | av.AudioStream) -> object:
    """Decode the first frame of a stream, which proves that players can decode the stream."""
    stream.codec_context.thread_count = 1
    opened.seek(0)
    frame = next(opened.decode(stream), None)
    if frame is None:
        raise UnacceptableRecordingError(texts.RECORDING_DAMAGED)
    return frame


def _make_poster(frame: object) -> bytes:
    """Encode a frame as JPEG of at most ``POSTER_PIXELS``."""
    if not isinstance(frame, av.VideoFrame):
        return b""
    picture: Image.Image = frame.to_image()  # type: ignore[no-untyped-call]
    picture.thumbnail((POSTER_PIXELS, POSTER_PIXELS))
    buffer = io.BytesIO()
    picture.convert("RGB").save(buffer, "JPEG", quality=80)
    return buffer.getvalue()


def _duration_ms(opened: av.container.InputContainer) -> int:
    """Return the duration that the packets have. A header can be missing or wrong, as browsers write WebM."""
    end = 0.0
    opened.seek(0)
    for packet in opened.demux():
        if packet.pts is not None and packet.time_base is not None:
            end = max(end, float((packet.pts + (packet.duration or 0)) * packet.time_base))
    return round(end * 1000)


def main(arguments: list[str]) -> int:
    """Check the file on standard input and write the result to standard output.

    :param arguments: CONTAINER, SECONDS as the limit of CPU time, BYTES as the limit of address space
    :return: the exit status, which is 0 for a refused file, too
    """
    container, seconds, space = arguments[0], float(arguments[1]), int(arguments[2])
    av.logging.set_level(None)
    os.nice(5)  # short requests have priority
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    poster = b""
    try:
        answer, poster = check_recording(sys.stdin.buffer, container)
    except UnacceptableRecordingError as error:
        answer = {"refused": str(error)}
    except MemoryError:
        answer = {"refused": texts.RECORDING_TOO_COMPLEX}
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + poster)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
