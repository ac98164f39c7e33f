# SPDX-License-Identifier: Apache-2.0
"""Decompresses capture files for readers in Python; the Rust core decompresses by itself."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, cast

from weir.analysis.errors import CompressionError


def _zstd(path: Path) -> IO[bytes]:
    import pyarrow as pa

    return cast("IO[bytes]", pa.CompressedInputStream(str(path), "zstd"))


_OPENERS: dict[bytes, Callable[[Path], Any]] = {
    b"\xfd7zXZ\x00": lzma.open,
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\x28\xb5\x2f\xfd": _zstd,
}
"""Opens a file, by its first bytes: xz, gzip, bzip2, Zstandard."""


@contextmanager
def readable(path: Path) -> Iterator[Path]:
    """Yield an uncompressed capture: `path` itself, or a decompressed copy that is deleted on exit.

    A FIFO must hold an uncompressed capture.

    Raises CompressionError when the compressed data are damaged, OSError when there is no such file.
    """
    if path.is_fifo():
        # Bytes read to recognise the compression would be missing for the reader.
        yield path
        return
    with path.open("rb") as file:
        first = file.read(8)
    opener = next((opener for magic, opener in _OPENERS.items() if first.startswith(magic)), None)
    with ExitStack() as stack:
        if opener is None:
            yield path
            return
        plain = Path(stack.enter_context(TemporaryDirectory(prefix="weir-"))) / path.stem
        try:
            with opener(path) as packed, plain.open("wb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)
        except (EOFError, lzma.LZMAError, OSError) as error:
            raise CompressionError(f"{path}: cannot be decompressed: {error}") from error
        yield plain
