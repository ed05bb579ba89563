"""Bytecode of test modules with pytest's assertions, written once before the worker processes of a run start."""

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from _pytest.assertion import rewrite


@contextmanager
def rewriting(config: pytest.Config, directory: Path) -> Iterator[None]:
    """Rewrite the test modules below a directory while other work is done.

    Each worker process imports all test modules. Otherwise each process would rewrite all modules of a fresh checkout.
    """
    paths = sorted(directory.rglob("test_*.py"))
    count = os.cpu_count() or 1
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=_rewrite, args=(config, paths[first::count])) for first in range(count)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        for writer in writers:
            writer.join()


def _rewrite(config: pytest.Config, paths: list[Path]) -> None:
    state = config.stash[rewrite.assertstate_key]
    for path in paths:
        directory = rewrite.get_cache_dir(path)
        kept = directory / f"{path.stem}{rewrite.PYC_TAIL}"
        if rewrite.try_makedirs(directory) and rewrite._read_pyc(path, kept) is None:
            digest, code = rewrite._rewrite_test(path, config)
            rewrite._write_pyc(state, code, digest, kept)
