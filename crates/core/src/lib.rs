//! Time, rates, seeded randomness, frames and the endpoint contract shared by every Wellspring protocol
