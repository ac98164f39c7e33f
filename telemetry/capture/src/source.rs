// SPDX-License-Identifier: Apache-2.0
//! The source of a capture's bytes: a file or standard input, decompressed if necessary.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;

/// The path that means standard input.
const STANDARD_INPUT: &str = "-";
/// Length of the longest of [`MAGICS`].
const MAGIC_BYTES: usize = 6;
/// Compressed bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Decompressed bytes per read. Small, because a decoder may not deliver those of the read in which the file is cut.
const UNPACKED_BYTES: usize = 16 << 10;
/// Four times the memory that `xz -9` needs; a file may demand 4 GiB.
const XZ_MEMORY_KB: u32 = 256 << 10;
/// The limit of `zstd` itself without `--long`, as a power of two in bytes.
const ZSTD_WINDOW_LOG: u32 = 27;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    Gzip,
    Xz,
    Zstandard,
    Bzip2,
}

const MAGICS: [(&[u8], Compression); 4] = [
    (b"\x1f\x8b", Compression::Gzip),
    (b"\xfd7zXZ\0", Compression::Xz),
    (b"\x28\xb5\x2f\xfd", Compression::Zstandard),
    (b"BZh", Compression::Bzip2),
];

impl Compression {
    fn of(first: &[u8]) -> Option<Self> {
        let found = MAGICS.iter().find(|(magic, _)| first.starts_with(magic));
        found.map(|(_, compression)| *compression)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstandard => "Zstandard",
            Self::Bzip2 => "bzip2",
        }
    }
}

type Bytes = Box<dyn Read + Send + Sync>;

/// The bytes of a capture, decompressed where its first bytes say that they are compressed (gzip, xz, Zstandard,
/// bzip2), in memory that does not grow with the file.
pub struct Source {
    bytes: Bytes,
    compression: Option<Compression>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let compression = self.compression.map(Compression::name);
        f.debug_struct("Source")
            .field("compression", &compression)
            .finish_non_exhaustive()
    }
}

impl Source {
    /// Opens a file, or standard input when `path` is `-`, and reads its first bytes.
    ///
    /// # Errors
    /// When the file cannot be opened, or its first bytes cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new(STANDARD_INPUT) {
            Self::new(io::stdin())
        } else {
            Self::new(File::open(path)?)
        }
    }

    /// Chooses the decoder by the first bytes of `packed`.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn new(mut packed: impl Read + Send + Sync + 'static) -> io::Result<Self> {
        let mut first = Vec::with_capacity(MAGIC_BYTES);
        packed
            .by_ref()
            .take(MAGIC_BYTES as u64)
            .read_to_end(&mut first)?;
        let compression = Compression::of(&first);
        let all = Cursor::new(first).chain(packed);
        let bytes: Bytes = match compression {
            None => Box::new(all),
            Some(Compression::Gzip) => Box::new(MultiGzDecoder::new(buffered(all))),
            Some(Compression::Xz) => {
                Box::new(XzReader::new_mem_limit(buffered(all), true, XZ_MEMORY_KB))
            }
            Some(Compression::Zstandard) => {
                let mut decoder = zstd::Decoder::with_buffer(buffered(all))?;
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                Box::new(decoder)
            }
            Some(Compression::Bzip2) => Box::new(MultiBzDecoder::new(buffered(all))),
        };
        Ok(Self { bytes, compression })
    }
}

fn buffered<R: Read>(packed: R) -> BufReader<R> {
    BufReader::with_capacity(READ_BYTES, packed)
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(compression) = self.compression else {
            return self.bytes.read(buffer);
        };
        let most = buffer.len().min(UNPACKED_BYTES);
        let room = buffer.get_mut(..most).unwrap_or_default();
        self.bytes.read(room).map_err(|error| {
            let text = format!("cannot be decompressed as {}: {error}", compression.name());
            io::Error::new(error.kind(), text)
        })
    }
}
