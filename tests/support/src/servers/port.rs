//! Ports for servers.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::TcpListener;

/// A free port. It is below those that the system gives to outgoing connections: one of them could have it while a test has
/// stopped its server. Nodes of a cluster talk to each other at a port that is 10000 higher.
pub fn free_port() -> u16 {
    loop {
        let port = 10_000 + u16::try_from(RandomState::new().hash_one(()) % 5_000).expect("a small number");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
