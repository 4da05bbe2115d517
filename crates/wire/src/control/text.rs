//! Text in control messages.

use alloc::vec::Vec;

use super::MAX_TEXT_LEN;
use crate::ParseError;
use crate::bytes::Reader;

/// Writes text for people, cut to [`MAX_TEXT_LEN`]; control characters become spaces.
pub(super) fn put_text(text: &str, out: &mut Vec<u8>) {
    let mut len = text.len().min(MAX_TEXT_LEN);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    let at = out.len();
    out.push(0);
    for c in text[..len].chars() {
        // A control character of two bytes becomes a space of one: never longer than before.
        let c = if c.is_control() { ' ' } else { c };
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    out[at] = (out.len() - at - 1) as u8;
}

/// Text that may be shown to people: no control characters, so none that a terminal obeys.
pub(super) fn text<'a>(
    body: &mut Reader<'a>,
    len: usize,
    limit: usize,
) -> Result<&'a str, ParseError> {
    let text = core::str::from_utf8(body.take(len)?).map_err(|_| ParseError::BadField("text"))?;
    if len > limit || text.chars().any(char::is_control) {
        return Err(ParseError::BadField("text"));
    }
    Ok(text)
}
