"""Supported formats of pictures and recordings, and size limits, checked without decoding."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from marketplace.infra import texts

MAX_SIDE_PIXELS = 12_000
MAX_ASPECT_RATIO = 20  # longer side to shorter side
HEADER_BYTES = 30  # enough to detect the format and the size of a WebP


class UnacceptablePictureError(Exception):
    """The picture is damaged or exceeds a limit. The message explains the reason to the sender."""


@dataclass(frozen=True)
class PictureFormat:
    """A picture format. ``signature`` matches the first bytes of a file.

    ``max_pixels`` is the limit that fits into the memory of the decoding process. Decoders differ: a JPEG that is not
    progressive is decoded at a fraction of its size, and a WebP needs 16 bytes per pixel (four copies).
    """

    name: str
    content_type: str
    suffix: str
    max_pixels: int
    signature: bytes


JPEG = PictureFormat("JPEG", "image/jpeg", "jpg", 50_000_000, rb"\xff\xd8\xff")
PNG = PictureFormat("PNG", "image/png", "png", 24_000_000, rb"\x89PNG\r\n\x1a\n")
WEBP = PictureFormat("WebP", "image/webp", "webp", 12_500_000, rb"(?s)RIFF.{4}WEBP")
GIF = PictureFormat("GIF", "image/gif", "gif", 24_000_000, rb"GIF8[79]a")
FORMATS = {picture_format.name: picture_format for picture_format in (JPEG, PNG, WEBP, GIF)}


@dataclass(frozen=True)
class RecordingContainer:
    """A container of audio or video. ``signature`` matches the first bytes of a file.

    :param demuxer: FFmpeg's name of the reader
    """

    audio_type: str
    video_type: str | None
    suffix: str
    demuxer: str
    signature: bytes


RECORDING_CONTAINERS = {
    "MP4": RecordingContainer("audio/mp4", "video/mp4", "mp4", "mp4", rb"(?s).{4}ftyp(?!qt  )"),
    "QuickTime": RecordingContainer("audio/mp4", "video/quicktime", "mov", "mov", rb"(?s).{4}ftypqt  "),
    "WebM": RecordingContainer("audio/webm", "video/webm", "webm", "matroska", rb"\x1a\x45\xdf\xa3"),
    "Ogg": RecordingContainer("audio/ogg", None, "ogg", "ogg", rb"OggS"),
    "AMR": RecordingContainer("audio/amr", None, "amr", "amr", rb"#!AMR"),
    "MP3": RecordingContainer("audio/mpeg", None, "mp3", "mp3", rb"ID3|\xff[\xfb\xf3\xf2]"),
    "AAC": RecordingContainer("audio/aac", None, "aac", "aac", rb"\xff[\xf1\xf9]"),
}
MAX_PROGRESSIVE_JPEG_PIXELS = 25_000_000  # the decoder holds all coefficients of a progressive JPEG in memory


@dataclass(frozen=True)
class Rendition:
    """A re-encoded picture. ``name`` is the requested longest side, or the suffix of the original format."""

    name: str
    content_type: str
    width: int
    height: int
    content: bytes


@dataclass(frozen=True)
class Picture:
    """A processed picture: the upright size in pixels, and the renditions, smallest first."""

    format: PictureFormat
    width: int
    height: int
    renditions: Sequence[Rendition]


@dataclass(frozen=True)
class Recording:
    """A checked audio or video file. ``width`` and ``height`` are in pixels, none for audio.

    :ivar poster: the first frame of a video as JPEG
    """

    content_type: str
    suffix: str
    duration_ms: int
    width: int | None
    height: int | None
    poster: bytes | None = None


def detect_format(head: bytes) -> PictureFormat | None:
    """Detect the format of a file from its first bytes.

    :param head: the first ``HEADER_BYTES`` bytes or more; a shorter file in full
    :return: none if the format is not supported
    """
    return next((kind for kind in FORMATS.values() if re.match(kind.signature, head)), None)


def detect_container(head: bytes) -> str | None:
    """Detect the container of a recording from its first bytes.

    :return: a key of ``RECORDING_CONTAINERS``, or none if the container is not supported
    """
    return next(
        (name for name, container in RECORDING_CONTAINERS.items() if re.match(container.signature, head)),
        None,
    )


def read_webp_size(head: bytes) -> tuple[int, int] | None:
    """Read the size of a WebP from its header, because the decoder allocates memory for this size immediately.

    :return: width and height in pixels, or none if the header contains no size
    """
    if len(head) < HEADER_BYTES:
        return None
    kind = head[12:16]
    if kind == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF
    return None


def ensure_acceptable_size(width: int, height: int, *, max_pixels: int) -> None:
    """Refuse unreasonable picture sizes before decoding.

    :param width: in pixels, from the header
    :param height: in pixels, from the header
    :param max_pixels: the limit for width times height
    :raises UnacceptablePictureError: the picture is empty, too large or too narrow
    """
    if width < 1 or height < 1:
        raise UnacceptablePictureError(texts.PICTURE_WITHOUT_PIXELS)
    if max(width, height) > MAX_SIDE_PIXELS:
        raise UnacceptablePictureError(
            texts.PICTURE_SIDE_TOO_LONG.format(width=width, height=height, limit=MAX_SIDE_PIXELS)
        )
    if max(width, height) > MAX_ASPECT_RATIO * min(width, height):
        raise UnacceptablePictureError(
            texts.PICTURE_TOO_NARROW.format(width=width, height=height, limit=MAX_ASPECT_RATIO)
        )
    if width * height > max_pixels:
        raise UnacceptablePictureError(
            texts.PICTURE_TOO_LARGE.format(
                megapixels=width * height / 1_000_000, limit=max_pixels / 1_000_000
            )
        )
