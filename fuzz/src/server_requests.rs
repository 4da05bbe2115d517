//! Requests of any clients in any order to a server, from the datagram to its answer, without a network: no transfer
//! without a cookie, none beyond limits and quotas, nothing refused twice differently, no name that leads out.

pub use wellspring_server::fuzzing::server_requests as run;
