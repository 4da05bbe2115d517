//! TCP on networks that lose, repeat and disorder, and among strangers: every transfer ends.

mod hostile;
mod impairments;
mod incast;
mod lab;
