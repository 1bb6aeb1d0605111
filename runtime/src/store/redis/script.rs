//! The Lua scripts, one per step.

use std::sync::LazyLock;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, Value};

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
    CLAIM = "time.lua" "state.lua" "holder.lua" "requested.lua" "record.lua" "claim.lua";
    EXTEND = "time.lua" "state.lua" "lease.lua" "extend.lua";
    RELEASE = "time.lua" "state.lua" "requested.lua" "record.lua" "lease.lua" "release.lua";
    SLOT_CLAIM = "time.lua" "slots.lua" "slot.lua" "slot_claim.lua";
    SLOT_EXTEND = "time.lua" "slots.lua" "slot.lua" "slot_extend.lua";
    SLOT_RELEASE = "time.lua" "slots.lua" "slot.lua" "slot_release.lua";
    HELD = "time.lua" "state.lua" "holder.lua" "slots.lua" "holders.lua" "held.lua";
    BREAK_LOCK = "time.lua" "state.lua" "holder.lua" "record.lua" "slots.lua" "holders.lua" "break_lock.lua";
    SET_PAUSED = "time.lua" "state.lua" "set_paused.lua";
    RESET = "time.lua" "state.lua" "reset.lua";
    FORGET = "time.lua" "state.lua" "holder.lua" "slots.lua" "forget.lua";
    REQUEST = "time.lua" "state.lua" "requested.lua" "request.lua";
    HISTORY = "time.lua" "state.lua" "history.lua";
    ANNOUNCE = "time.lua" "fleet.lua" "announce.lua";
    LEAVE = "time.lua" "fleet.lua" "leave.lua";
    SERVERS = "time.lua" "fleet.lua" "servers.lua";
    HINT = "time.lua" "fleet.lua" "hint.lua";
}

impl Script {
    fn new(source: &'static str) -> Self {
        Self { source, digest: redis::Script::new(source).get_hash().to_owned() }
    }

    /// Runs the script by its digest; only a server that does not know it yet is sent the source.
    pub(super) async fn run(
        &self,
        mut connection: MultiplexedConnection,
        keys: &[String],
        args: &[String],
    ) -> RedisResult<Value> {
        let by_digest = command("EVALSHA", &self.digest, keys, args);
        match by_digest.query_async(&mut connection).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                command("EVAL", self.source, keys, args).query_async(&mut connection).await
            }
            result => result,
        }
    }
}

fn command(verb: &str, script: &str, keys: &[String], args: &[String]) -> Cmd {
    let mut command = redis::cmd(verb);
    command.arg(script).arg(keys.len()).arg(keys).arg(args);
    command
}
