//! Batches of packets or datagrams in one buffer, without an allocation for each.

/// Packets or datagrams in one buffer, in order.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Traffic class of each.
    classes: Vec<u8>,
}

impl Batch {
    /// An empty one.
    pub fn new() -> Self {
        Batch::default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    /// All of them, in order, each with the traffic class to send it with: DSCP and ECN of what it repairs, or 0.
    pub fn with_classes(&self) -> impl Iterator<Item = (u8, &[u8])> {
        self.classes.iter().copied().zip(self.iter())
    }

    /// Forgets them; the memory stays.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.classes.clear();
    }

    /// Appends one.
    pub fn push(&mut self, bytes: &[u8]) {
        self.write(0, |buffer| buffer.extend_from_slice(bytes));
    }

    /// Appends one of that traffic class, which `write` makes at the end of the buffer.
    pub(crate) fn write(&mut self, class: u8, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
        self.classes.push(class);
    }
}
