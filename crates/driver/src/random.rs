//! Random numbers that cannot be guessed: session numbers, nonces, secrets.

/// Fills `bytes` from the system's generator.
///
/// # Panics
/// If the system has none, without which nothing here is safe.
pub fn fill(bytes: &mut [u8]) {
    #[cfg(feature = "simulation")]
    if let Some(machine) = crate::simulation::machine() {
        return machine.fill_random(bytes);
    }
    getrandom::fill(bytes).expect("the system's random number generator works");
}

/// A random number.
pub fn number() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_be_bytes(bytes)
}
