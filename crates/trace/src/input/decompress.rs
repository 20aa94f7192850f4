//! Compressed traces: recognised by their first bytes, whatever their names say.
//!
//! **Owns** which compressions are known and how much memory each may take. **Does not own** what
//! comes out.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;
use liblzma::read::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

/// Memory an xz decoder may take: more than `xz -9` asks for (65 MiB), less than a forged header.
const XZ_MEMORY_BYTES: u64 = 256 << 20;
/// Largest zstd window, as a power of two: what `zstd --ultra -22` uses; 128 MiB.
const ZSTD_WINDOW_LOG: u32 = 27;
/// Bytes that tell compressions apart.
const MAGIC_BYTES: u64 = 6;

strata_lru::named! {
    /// How the file is compressed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Compression {
        /// Not at all.
        None = "none",
        /// gzip, one or more members.
        Gz = "gz",
        /// xz, one or more streams.
        Xz = "xz",
        /// Zstandard, one or more frames.
        Zst = "zst",
    }
}

impl Compression {
    /// What the first bytes say.
    fn of(magic: &[u8]) -> Compression {
        match magic {
            [0x1f, 0x8b, ..] => Compression::Gz,
            [0xfd, b'7', b'z', b'X', b'Z', 0] => Compression::Xz,
            // A Zstandard frame, or one of the skippable frames that some writers put in front.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zst,
            _ => Compression::None,
        }
    }
}

/// The content of `stream`.
pub(super) fn decompress(
    mut stream: impl Read + Send + 'static,
) -> io::Result<(Box<dyn Read + Send>, Compression)> {
    let mut magic = Vec::new();
    stream.by_ref().take(MAGIC_BYTES).read_to_end(&mut magic)?;
    let compression = Compression::of(&magic);
    let stream = Cursor::new(magic).chain(stream);
    let content: Box<dyn Read + Send> = match compression {
        Compression::None => Box::new(stream),
        Compression::Gz => Box::new(MultiGzDecoder::new(stream)),
        Compression::Xz => {
            let decoder = Stream::new_stream_decoder(XZ_MEMORY_BYTES, CONCATENATED)?;
            Box::new(XzDecoder::new_stream(stream, decoder))
        }
        Compression::Zst => {
            let mut decoder = zstd::Decoder::new(stream)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
    };
    Ok((content, compression))
}
