//! The Lua scripts, one per step.

use std::sync::LazyLock;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, Value};

use super::super::REMEMBERED;
use super::super::model::FORMAT;

/// A script and the digest by which the server remembers it.
pub(super) struct Script {
    source: &'static str,
    digest: String,
}

macro_rules! scripts {
    ($($name:ident = $($file:literal)+;)+) => { $(
        pub(super) static $name: LazyLock<Script> = LazyLock::new(|| Script::new(concat!($(include_str!($file)),+)));
    )+ };
}

scripts! {
    CLAIM = "state.lua" "claim.lua";
    EXTEND = "state.lua" "lease.lua" "extend.lua";
    RELEASE = "state.lua" "lease.lua" "release.lua";
    SET_PAUSED = "state.lua" "set_paused.lua";
    RESET = "state.lua" "reset.lua";
    HISTORY = "state.lua" "history.lua";
}

impl Script {
    fn new(source: &'static str) -> Self {
        Self { source, digest: redis::Script::new(source).get_hash().to_owned() }
    }

    /// Runs the script by its digest; only a server that does not know it yet is sent the source.
    pub(super) async fn run(
        &self,
        mut connection: MultiplexedConnection,
        lock_key: &str,
        args: &[String],
    ) -> RedisResult<Value> {
        let by_digest = command("EVALSHA", &self.digest, lock_key, args);
        match by_digest.query_async(&mut connection).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                command("EVAL", self.source, lock_key, args).query_async(&mut connection).await
            }
            result => result,
        }
    }
}

fn command(verb: &str, script: &str, lock_key: &str, args: &[String]) -> Cmd {
    let mut command = redis::cmd(verb);
    command.arg(script).arg(4).arg(lock_key);
    for part in ["state", "runs", "skips"] {
        // The braces put them into the slot of the lock.
        command.arg(format!("{{{lock_key}}}:{part}"));
    }
    command.arg(FORMAT).arg(REMEMBERED).arg(args);
    command
}
