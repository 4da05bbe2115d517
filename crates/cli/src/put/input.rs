//! Standard input, kept in a file: its length and digest must be known before it is offered.

use std::fs::File;
use std::io::{Read, Seek, Write};

use wellspring_console::exit::Failed;
use wellspring_console::interrupt::detached;
use wellspring_console::units::bytes;

use crate::exit;

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// Reads standard input to its end into a file without a name.
pub async fn spool(limit: u64) -> Result<File, Failed> {
    detached(move || keep(std::io::stdin().lock(), limit)).await
}

fn keep(mut input: impl Read, limit: u64) -> Result<File, Failed> {
    let wrong = |error| exit::of_temporary_file(&error, "Standard input is kept there first");
    let mut file = tempfile::tempfile().map_err(wrong)?;
    let (mut buffer, mut len) = (vec![0; CHUNK], 0);
    loop {
        let read = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failed::system("standard input", &error)),
        };
        len += read as u64;
        if len > limit {
            let text = format!("standard input is longer than {}", bytes(limit));
            return Err(Failed::other(text).hint("Nothing was sent. --max-input takes more."));
        }
        file.write_all(&buffer[..read]).map_err(wrong)?;
    }
    file.rewind().map_err(wrong)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_kept_whole_or_refused() {
        let mut kept = String::new();
        keep(&b"some bytes"[..], 10).expect("kept").read_to_string(&mut kept).expect("read");
        assert_eq!(kept, "some bytes");
        assert!(keep(&b"some bytes"[..], 9).is_err());
    }
}
