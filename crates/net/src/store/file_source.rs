//! An object's bytes out of a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::Fingerprint;
use crate::payload::ObjectSource;

/// Reads blocks from a file, as long as it stays what it was when its digest was taken.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    fingerprint: Fingerprint,
}

impl FileSource {
    /// The bytes of `file`, whose state was `fingerprint` when its digest was computed.
    pub fn new(file: File, fingerprint: Fingerprint) -> Self {
        FileSource { file, fingerprint }
    }
}

impl ObjectSource for FileSource {
    fn read_block(&self, offset: u64, block: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(block, offset)?;
        // After the read: a change before it shows now, and one after it does not matter.
        if Fingerprint::of(&self.file)? == self.fingerprint {
            Ok(())
        } else {
            Err(io::Error::other("the file changed during the transfer"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_that_changes_under_a_transfer_fails_it() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("a");
        fs::write(&path, b"0123456789").expect("write");
        let file = File::open(&path).expect("open");
        let source = FileSource::new(file.try_clone().expect("dup"), {
            Fingerprint::of(&file).expect("stat")
        });
        let mut block = [0; 4];
        source.read_block(3, &mut block).expect("read");
        assert_eq!(&block, b"3456");
        assert!(source.read_block(8, &mut block).is_err(), "beyond the end");
        fs::write(&path, b"0123456789a").expect("write");
        assert!(source.read_block(3, &mut block).is_err(), "changed");
    }
}
