//! The `wellspring` command.

fn main() {}
