"""Hostile image files: refusal within a second of processor time and 200 MB of memory."""

import json
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

import pytest

from marketplace.infra.imaging import sandboxed_decode
from marketplace.infra.imaging.formats import FORMATS, HEADER_BYTES, PNG, PictureFormat, detect_format
from marketplace.kernel.errors import (
    MarketplaceError,
    ServiceUnavailableError,
    UnsupportedMediaTypeError,
    ValidationError,
)
from tests.support.depth import DEEP, case_count, sample
from tests.support.hostile_images import ATTACKS, BURDENS
from tests.support.sample_images import chunk, decode_image, encode_image, gradient, photo

SIZES = (320, 800, 1600)
MOST_SECONDS = 1.0
MOST_MEGABYTES = 200
# Attacks on processor time and memory. A quick run only measures these files and only refuses the others.
HEAVY = (
    "PNG of 99 million pixels",
    "PNG with a profile of 300 MB",
    "PNG with 20,000 packed texts",
    "PNG with 400,000 chunks",
    "JPEG with 50,000 scans",
    "PNG of 24 million pixels, damaged at its end",
    "JPEG of 48 million pixels, cut off at its end",
    "PNG of 16 bits with half of its rows",
    "PNG of 23.5 million pixels without its last row",
)
# The peak of a process includes the memory of the parent at the fork, so this parent is small.
_MEASURE = """
import json, os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdin=0, stdout=subprocess.PIPE)
answer = child.stdout.readline().decode()
while child.stdout.read(65536): pass
_, status, usage = os.wait4(child.pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), answer, usage.ru_utime + usage.ru_stime, usage.ru_maxrss]))
"""


@dataclass(frozen=True)
class Measured:
    """Result of the decoder process for a file, with processor time and peak memory."""

    status: int
    answer: str
    seconds: float
    megabytes: float


@contextmanager
def file_of(content: bytes) -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        yield file


def measured(content: bytes, kind: PictureFormat) -> Measured:
    with file_of(content) as file:
        file.seek(0)
        done = subprocess.run(
            [sys.executable, "-I", "-c", _MEASURE, *sandboxed_decode.decode_worker_command(kind, SIZES)],
            stdin=file,
            stdout=subprocess.PIPE,
            timeout=60,
            check=True,
        )
    status, answer, seconds, peak = json.loads(done.stdout)
    # Linux reports kilobytes, macOS bytes.
    return Measured(status, answer, seconds, peak / (1024 if sys.platform == "linux" else 1024 * 1024))


def refused(content: bytes) -> MarketplaceError:
    with file_of(content) as file, pytest.raises(MarketplaceError) as error:
        sandboxed_decode.re_encode(file, name="file", sizes=SIZES)
    return error.value


@pytest.mark.parametrize("name", [name for name in ATTACKS if DEEP or name not in HEAVY])
def test_hostile_file_is_refused_with_expected_status(name: str) -> None:
    make, status = ATTACKS[name]

    error = refused(make())

    assert error.status == status
    assert isinstance(error, ValidationError if status == 422 else UnsupportedMediaTypeError)
    assert error.detail.startswith("file: The ")
    if status == 422:
        assert [item.name for item in error.invalid_params] == ["file"]


@pytest.mark.parametrize(
    "name", [*(name for name in ATTACKS if name in HEAVY or (DEEP and ATTACKS[name][1] == 422)), *BURDENS]
)
def test_hostile_file_takes_little_time_and_memory(name: str) -> None:
    content = BURDENS[name]() if name in BURDENS else ATTACKS[name][0]()
    kind = detect_format(content[:HEADER_BYTES])
    if kind is None:
        assert content == b""  # refused before any process is started
        return

    found = measured(content, kind)

    assert found.megabytes < MOST_MEGABYTES
    if name in ATTACKS:
        assert found.seconds < MOST_SECONDS
        assert found.status == 0
        assert "refused" in json.loads(found.answer)


@pytest.mark.parametrize(
    ("kind", "size"),
    # A quick run has the two most expensive formats.
    [("JPEG", (8000, 6000)), ("WebP", (4080, 3060)), ("PNG", (6000, 4000)), ("GIF", (6000, 4000))][
        : case_count(2, deep=4)
    ],
)
def test_largest_accepted_image_takes_little_memory(kind: str, size: tuple[int, int]) -> None:
    mode = "RGBA" if kind in ("PNG", "WebP") else "RGB"
    content = encode_image(gradient(*size, mode), kind)

    found = measured(content, FORMATS[kind])

    assert "refused" not in found.answer
    assert found.megabytes < MOST_MEGABYTES + (50 if kind == "WebP" else 0)


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize("size", sample([(1, 1), (3, 2), (5, 5), (9, 7), (100, 60), (601, 599)], every=2))
def test_png_with_all_rows_is_accepted(size: tuple[int, int], interlaced: bool) -> None:
    passes = [
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ]
    pixels = b""
    for left, top, across, down in passes if interlaced else [(0, 0, 1, 1)]:
        columns, rows = -(-(size[0] - left) // across), -(-(size[1] - top) // down)
        if columns > 0:
            pixels += (b"\x00" + b"\x80" * columns * 3) * rows
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, interlaced))
    packed = zlib.compress(pixels)
    parts = [chunk(b"IDAT", packed[at : at + 7]) + chunk(b"IDAT", b"") for at in range(0, len(packed), 7)]

    with file_of(b"\x89PNG\r\n\x1a\n" + header + b"".join(parts) + chunk(b"IEND", b"")) as file:
        picture = sandboxed_decode.re_encode(file, name="file", sizes=SIZES)

    assert (picture.width, picture.height) == size
    drawn = decode_image(picture.renditions[-1].content)
    assert drawn.convert("RGB").getextrema() == ((0x80, 0x80),) * 3


class TestLimits:
    def test_decoding_beyond_time_limit_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sandboxed_decode, "_DECODE_CPU_SECONDS", 0.002)

        assert "too complex" in refused(encode_image(gradient(3000, 3000), "PNG")).detail

    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of the decoder")
    def test_decoding_beyond_memory_limit_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sandboxed_decode, "_MAX_ADDRESS_SPACE", 90 * 1024 * 1024)

        assert refused(encode_image(gradient(5000, 4000), "PNG")).status == 422

    def test_decoder_process_beyond_timeout_is_killed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sandboxed_decode, "_WORKER_TIMEOUT_SECONDS", 0.2)
        monkeypatch.setattr(sandboxed_decode, "decode_worker_command", lambda _kind, _sizes: ["sleep", "60"])

        assert isinstance(refused(photo(20, 20)), ServiceUnavailableError)

    def test_failure_of_decoder_process_is_not_blamed_on_the_file(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            sandboxed_decode, "decode_worker_command", lambda _kind, _sizes: [sys.executable, "-c", "1 / 0"]
        )

        with file_of(photo(20, 20)) as file, pytest.raises(sandboxed_decode.DecodeWorkerFailedError):
            sandboxed_decode.re_encode(file, name="file", sizes=SIZES)

    def test_crash_of_decoder_process_refuses_the_file(self, monkeypatch: pytest.MonkeyPatch) -> None:
        crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
        monkeypatch.setattr(
            sandboxed_decode, "decode_worker_command", lambda _kind, _sizes: [sys.executable, "-c", crash]
        )

        assert refused(photo(20, 20)).status == 422

    def test_decoding_with_all_slots_in_use_answers_retry_after(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sandboxed_decode, "_QUEUE_TIMEOUT_SECONDS", 0.01)
        with sandboxed_decode._worker_slots, sandboxed_decode._worker_slots:
            error = refused(photo(20, 20))

        assert isinstance(error, ServiceUnavailableError)
        assert error.retry_after_seconds == 5

    def test_decoder_process_gets_no_environment_variables(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("S3_SECRET_ACCESS_KEY", "a secret")
        tell = "import json, os; print(json.dumps({'refused': ' '.join(os.environ)}))"
        monkeypatch.setattr(
            sandboxed_decode,
            "decode_worker_command",
            lambda _kind, _sizes: [sys.executable, "-I", "-c", tell],
        )

        assert refused(photo(20, 20)).detail.split()[1:] in (["LANG"], ["LANG", "LC_CTYPE"])


def test_content_hidden_in_image_is_removed() -> None:
    """Content after the image data or in a comment does not appear in the renditions."""
    evil = b"<script>alert(1)</script>"
    for content in (
        photo(90, 60) + evil,
        photo(90, 60, comment=evil),
        encode_image(gradient(90, 60), "GIF", comment=evil),
        encode_image(gradient(90, 60), "PNG") + evil,
    ):
        assert evil in content
        with file_of(content) as file:
            picture = sandboxed_decode.re_encode(file, name="file", sizes=SIZES)
        assert picture.format is not PNG or content.startswith(b"\x89PNG")
        for rendition in picture.renditions:
            assert b"script" not in rendition.content
            assert decode_image(rendition.content).size == (90, 60)
