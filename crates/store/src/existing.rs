//! Treatment of a file that has the wanted name already.

/// What to do when a file of that name exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// Leave it alone and fail.
    Keep,
    /// Put the new one in its place, in one step.
    Replace,
}
