//! Parts of a driver that each of its loops has.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::HandleError;
use crate::steering::Steering;

/// One of a kind for each loop of a driver.
pub(crate) struct EachLoop<T>(Arc<[T]>);

impl<T> Clone for EachLoop<T> {
    fn clone(&self) -> Self {
        EachLoop(Arc::clone(&self.0))
    }
}

impl<T> EachLoop<T> {
    /// By the loops' numbers; at least one.
    pub(crate) fn new(all: Vec<T>) -> Self {
        debug_assert!(!all.is_empty());
        EachLoop(all.into())
    }

    pub(crate) fn steering(&self) -> Steering {
        Steering::among(self.0.len() as u8)
    }

    /// That of a host's loop.
    pub(crate) fn of(&self, host: SocketAddr) -> &T {
        self.at(host.ip())
    }

    /// That of the loop of the host at an address.
    pub(crate) fn at(&self, address: IpAddr) -> &T {
        &self.0[usize::from(self.steering().of(address))]
    }

    /// The first.
    pub(crate) fn first(&self) -> &T {
        &self.0[0]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    /// Asks all; the first error, if there is one.
    pub(crate) fn ask_all(
        &self,
        ask: impl FnMut(&T) -> Result<(), HandleError>,
    ) -> Result<(), HandleError> {
        // None is left out because another one has stopped.
        self.iter().map(ask).fold(Ok(()), Result::and)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_asked_even_if_one_has_stopped() {
        let mut asked = 0;
        let outcome = EachLoop::new(vec![1, 2, 3]).ask_all(|number| {
            asked += 1;
            if *number == 2 { Err(HandleError::Stopped) } else { Ok(()) }
        });
        assert!(matches!(outcome, Err(HandleError::Stopped)));
        assert_eq!(asked, 3);
    }
}
