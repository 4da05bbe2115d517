//! Counts of lost packets by burst, since the last report.

/// Longest burst distinguished \[packets\].
const LONGEST: usize = 1_024;

/// What was counted since the last report.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) packets: u32,
    pub(crate) lost: u32,
    pub(crate) longest: u32,
    /// Bursts by length.
    bursts: Vec<u32>,
}

impl Counts {
    pub(crate) fn new() -> Self {
        Counts { packets: 0, lost: 0, longest: 0, bursts: vec![0; LONGEST + 1] }
    }

    pub(crate) fn add_burst(&mut self, run: u32) {
        self.lost = self.lost.saturating_add(run);
        self.longest = self.longest.max(run);
        self.bursts[(run as usize).min(LONGEST)] += 1;
    }

    pub(crate) fn add(&mut self, other: &Counts) {
        self.packets = self.packets.saturating_add(other.packets);
        self.lost = self.lost.saturating_add(other.lost);
        self.longest = self.longest.max(other.longest);
        for (to, from) in self.bursts.iter_mut().zip(&other.bursts) {
            *to = to.saturating_add(*from);
        }
    }

    /// All of it but so many packets, which stay.
    pub(crate) fn take(&mut self, stay: u32) -> Counts {
        let mut taken = std::mem::replace(self, Counts::new());
        taken.packets = taken.packets.saturating_sub(stay);
        self.packets = stay;
        taken
    }

    /// Runs of lost packets.
    pub(crate) fn runs(&self) -> u32 {
        self.bursts.iter().sum()
    }

    /// Nineteen of twenty lost packets were in bursts no longer than this.
    pub(crate) fn usual_burst(&self) -> u16 {
        let in_bursts = |(length, &count): (usize, &u32)| length as u64 * u64::from(count);
        let all: u64 = self.bursts.iter().enumerate().map(in_bursts).sum();
        let mut covered = 0;
        let usual = self.bursts.iter().enumerate().position(|burst| {
            covered += in_bursts(burst);
            covered * 20 >= all * 19
        });
        usual.unwrap_or(0) as u16
    }
}
