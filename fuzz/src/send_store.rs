//! Blocks that are being sent, under any order of wishes, workers and ends of sessions: what is written is what the
//! source has, memory keeps its bound, and when all is over nothing is held.

pub use wellspring_driver::fuzzing::send_store as run;
