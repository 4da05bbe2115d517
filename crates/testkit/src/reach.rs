//! Rows of the table that `lab/trust` prints.

/// Prints a row: what was done, the goal, what came of it, and whether that reaches the goal. Tests that are quiet
/// show it with `--nocapture` alone.
pub fn row(what: &str, goal: &str, came: &str, is_met: bool) {
    let met = if is_met { "yes" } else { "no" };
    println!("\nreach\t{what}\t{goal}\t{came}\t{met}");
}
