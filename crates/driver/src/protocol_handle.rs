//! Calls to one protocol of a running driver.

use std::net::SocketAddr;
use std::sync::Arc;

use crossbeam_channel::Sender;
use wellspring_core::SessionId;

use crate::handle::HandleError;
use crate::progress::SessionProgress;
use crate::protocol::{Opening, Protocol};
use crate::shared::Shared;

/// What crosses from the handles to one protocol.
pub(crate) enum ProtocolCall<P: Protocol> {
    Open(Box<Opening<P>>),
    Cancel(SessionId),
    CheckAgain(SessionId),
    Exclude(SessionId, SocketAddr),
    Other(P::Call),
}

/// A way to one protocol of a running driver.
pub(crate) struct ProtocolHandle<P: Protocol> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) calls: Sender<ProtocolCall<P>>,
}

impl<P: Protocol> Clone for ProtocolHandle<P> {
    fn clone(&self) -> Self {
        ProtocolHandle { shared: Arc::clone(&self.shared), calls: self.calls.clone() }
    }
}

impl<P: Protocol> ProtocolHandle<P> {
    /// Opens a session. What becomes of it comes as events; how far it is, from what is returned.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub(crate) fn open(&self, opening: Opening<P>) -> Result<SessionProgress, HandleError> {
        let progress = opening.progress.clone();
        self.ask(ProtocolCall::Open(Box::new(opening)))?;
        Ok(progress)
    }

    /// Ends a session, which reports [`Cancelled`](crate::Failure::Cancelled); one that is not open
    /// here is passed over.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub(crate) fn cancel(&self, session: SessionId) -> Result<(), HandleError> {
        self.ask(ProtocolCall::Cancel(session))
    }

    /// Has the blocks checked again of which it could not be told whether they are right.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub(crate) fn check_again(&self, session: SessionId) -> Result<(), HandleError> {
        self.ask(ProtocolCall::CheckAgain(session))
    }

    /// Has a receive session go on without one of its senders.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub(crate) fn exclude(
        &self,
        session: SessionId,
        sender: SocketAddr,
    ) -> Result<(), HandleError> {
        self.ask(ProtocolCall::Exclude(session, sender))
    }

    /// Asks the protocol something of its own.
    ///
    /// # Errors
    /// [`HandleError::Stopped`].
    pub(crate) fn call(&self, call: P::Call) -> Result<(), HandleError> {
        self.ask(ProtocolCall::Other(call))
    }

    fn ask(&self, call: ProtocolCall<P>) -> Result<(), HandleError> {
        self.calls.send(call).map_err(|_| HandleError::Stopped)?;
        self.shared.wake();
        Ok(())
    }
}
