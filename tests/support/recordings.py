"""Audio and video files for tests."""

import io
from fractions import Fraction
from typing import Any

import av
from PIL import Image


def make_video(
    *, container: str = "mp4", codec: str = "libx264", seconds: int = 1, size: tuple[int, int] = (320, 180)
) -> bytes:
    """Encode a video of one color."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as opened:
        stream: Any = opened.add_stream(codec, rate=2)
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        picture = av.VideoFrame.from_image(Image.new("RGB", size, (20, 120, 90)))
        for number in range(seconds * 2):
            picture.pts, picture.time_base = number, Fraction(1, 2)
            opened.mux(stream.encode(picture))
        opened.mux(stream.encode(None))
    return buffer.getvalue()


def make_voice_note(*, container: str = "ogg", codec: str = "libopus", seconds: int = 1) -> bytes:
    """Encode silence."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as opened:
        stream: Any = opened.add_stream(codec, rate=48_000)
        stream.layout = "mono"
        form = stream.codec_context.format.name if stream.codec_context.format else "flt"
        count = seconds * 48_000
        frame = av.AudioFrame(format=form, layout="mono", samples=count)
        for plane in frame.planes:
            plane.update(bytes(plane.buffer_size))
        frame.sample_rate, frame.pts = 48_000, 0
        for part in _frames(frame, stream):
            opened.mux(stream.encode(part))
        opened.mux(stream.encode(None))
    return buffer.getvalue()


def _frames(frame: av.AudioFrame, stream: Any) -> list[av.AudioFrame]:
    """Split a frame into frames of the encoder's size."""
    fifo = av.AudioFifo()
    fifo.write(frame)
    return list(fifo.read_many(stream.codec_context.frame_size or 1024, partial=True))
