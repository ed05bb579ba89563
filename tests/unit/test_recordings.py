"""Checks of audio and video files: formats, codecs, durations, damaged and mislabelled files."""

import io
import tempfile

import pytest

from marketplace.infra import texts
from marketplace.infra.imaging import recording_worker
from marketplace.infra.imaging.formats import Recording, detect_container
from marketplace.infra.imaging.recording_worker import UnacceptableRecordingError
from marketplace.infra.imaging.sandboxed_decode import check_recording
from marketplace.kernel.errors import UnsupportedMediaTypeError, ValidationError
from tests.support.recordings import make_video, make_voice_note


def check(content: bytes) -> Recording:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        return check_recording(file, name="file")


def refusal(content: bytes) -> str:
    container = detect_container(content)
    assert container is not None
    with pytest.raises(UnacceptableRecordingError) as caught:
        recording_worker.check_recording(io.BytesIO(content), container)
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "content_type", "size"),
    [
        (make_video(), "video/mp4", (320, 180)),
        (make_video(container="mov"), "video/quicktime", (320, 180)),
        (make_video(container="webm", codec="libvpx"), "video/webm", (320, 180)),
        (make_voice_note(), "audio/ogg", (None, None)),
        (make_voice_note(container="mp3", codec="libmp3lame"), "audio/mpeg", (None, None)),
        (make_voice_note(container="adts", codec="aac"), "audio/aac", (None, None)),
    ],
    ids=["mp4", "mov", "webm", "ogg", "mp3", "aac"],
)
def test_recording_is_accepted(
    content: bytes, content_type: str, size: tuple[int | None, int | None]
) -> None:
    recording = check(content)
    assert (recording.content_type, (recording.width, recording.height)) == (content_type, size)
    assert 900 <= recording.duration_ms <= 1100


def test_truncated_video_is_refused_as_damaged() -> None:
    with pytest.raises(ValidationError, match="damaged or incomplete"):
        check(make_video()[:900])


def test_text_named_like_a_video_is_refused() -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        check(b"#EXTM3U\nhttp://127.0.0.1/secret.ts\n")


def test_playlist_behind_a_video_signature_is_refused() -> None:
    assert refusal(b"\x00\x00\x00\x14ftypisom#EXTM3U\nfile:///etc/passwd\n") == texts.RECORDING_DAMAGED


def test_unsupported_codec_is_refused() -> None:
    assert refusal(make_video(codec="mpeg2video", container="mov")) == texts.RECORDING_CODEC


def test_long_recording_is_refused() -> None:
    long = make_video(seconds=recording_worker.MAX_SECONDS + 1, size=(16, 16))
    assert refusal(long) == texts.RECORDING_TOO_LONG.format(limit=10)


def test_video_larger_than_the_limit_is_refused() -> None:
    assert "megapixels" in refusal(make_video(codec="mpeg4", size=(4096, 2320)))
