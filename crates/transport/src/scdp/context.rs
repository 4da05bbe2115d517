//! The context that a session gets of its endpoint while it handles an input.

use alloc::collections::VecDeque;
use wellspring_core::{Time, Work};

use super::{Config, Event};

pub(super) struct Context<'a> {
    pub now: Time,
    pub config: &'a Config,
    pub events: &'a mut VecDeque<Event>,
    pub work: &'a mut VecDeque<Work>,
}
