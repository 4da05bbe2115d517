//! Samples of the path's queue by packet.

/// Numbers of the same place in [`QueueSamples`].
const STEP: u32 = 4;
/// Places of [`QueueSamples`].
const PLACES: usize = 512;

/// For which packets the path's queue was long.
#[derive(Debug)]
pub(crate) struct QueueSamples {
    /// By number: a packet, and whether the queue was long behind it.
    samples: Vec<Option<(u32, bool)>>,
}

impl QueueSamples {
    pub(crate) fn new() -> Self {
        QueueSamples { samples: vec![None; PLACES] }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.samples.fill(None);
    }

    /// Right behind that packet, the queue was long or not.
    pub(crate) fn record(&mut self, number: u32, long: bool) {
        self.samples[Self::place(number)] = Some((number, long));
    }

    fn place(number: u32) -> usize {
        (number / STEP) as usize % PLACES
    }

    /// The sample at a number's place.
    pub(crate) fn at(&self, number: u32) -> Option<(u32, bool)> {
        let sample = self.samples[Self::place(number)]?;
        (sample.0 / STEP == number / STEP).then_some(sample)
    }

    /// Whether the queue was long just before or just after a packet.
    pub(crate) fn around(&self, number: u32) -> bool {
        let steps = 0..PLACES as u32 / 2;
        let after = steps.clone().find_map(|step| {
            let sample = self.at(number.wrapping_add(step * STEP))?;
            (sample.0.wrapping_sub(number) as i32 >= 0).then_some(sample.1)
        });
        let before = steps.into_iter().find_map(|step| {
            let sample = self.at(number.wrapping_sub(step * STEP))?;
            ((sample.0.wrapping_sub(number) as i32) < 0).then_some(sample.1)
        });
        after == Some(true) || before == Some(true)
    }
}
