//! What the tests share: real servers, stores under test, and processes that run jobs.

#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::new_without_default,
    clippy::return_self_not_must_use,
    reason = "a library for the tests beside it alone"
)]

mod processes {
    pub mod bank;
    pub mod child;
    pub mod fleet;
    pub mod hand;
    pub mod home;
    pub mod promises;
    pub mod racer;
    pub mod server;
    pub mod worker;
}
mod servers {
    pub mod certificates;
    pub mod chosen;
    pub mod folder;
    pub mod mariadb_server;
    pub mod pooler;
    pub mod port;
    pub mod postgres_server;
    pub mod proxy;
    pub mod redis_cluster;
    pub mod redis_sentinel;
    pub mod redis_server;
}
mod subjects {
    pub mod file_subject;
    pub mod in_place;
    pub mod mysql_subject;
    pub mod pools;
    pub mod postgres_subject;
    pub mod redis_subject;
    pub mod sqlite_subject;
    pub mod subject;
    pub mod topology_subject;
}

pub use jobs::testing::store::bench;
pub use processes::{bank, child, fleet, hand, home, promises, racer, server, worker};
pub use servers::{
    certificates, chosen, folder, mariadb_server, pooler, port, postgres_server, proxy, redis_cluster,
    redis_sentinel, redis_server,
};
pub use subjects::{
    file_subject, in_place, mysql_subject, pools, postgres_subject, redis_subject, sqlite_subject, subject,
    topology_subject,
};
