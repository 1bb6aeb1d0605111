//! What the tests share: real servers, stores under test, and short ways to say what a server does.

// Each test program uses its own part of this.
#![allow(dead_code, unreachable_pub)]

pub mod certificates;
pub mod file_subject;
pub mod fleet;
pub mod folder;
pub mod hand;
pub mod home;
pub mod pooler;
pub mod postgres_server;
pub mod postgres_subject;
pub mod promises;
pub mod proxy;
pub mod racer;
pub mod redis_cluster;
pub mod redis_sentinel;
pub mod redis_server;
pub mod redis_subject;
pub mod subject;
pub mod topology_subject;
pub mod worker;

pub use jobs::testing::store::bench;
