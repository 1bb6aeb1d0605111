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
    CLAIM = "state.lua" "holder.lua" "requested.lua" "record.lua" "claim.lua";
    EXTEND = "state.lua" "lease.lua" "extend.lua";
    RELEASE = "state.lua" "requested.lua" "record.lua" "lease.lua" "release.lua";
    SET_PAUSED = "state.lua" "set_paused.lua";
    RESET = "state.lua" "reset.lua";
    FORGET = "state.lua" "holder.lua" "forget.lua";
    REQUEST = "state.lua" "requested.lua" "request.lua";
    HISTORY = "state.lua" "history.lua";
    ANNOUNCE = "fleet.lua" "announce.lua";
    LEAVE = "fleet.lua" "leave.lua";
    SERVERS = "fleet.lua" "servers.lua";
    HINT = "fleet.lua" "hint.lua";
}

impl Script {
    fn new(source: &'static str) -> Self {
        Self { source, digest: redis::Script::new(source).get_hash().to_owned() }
    }

    /// The command on the line at which the server says that the script failed.
    pub(super) fn command_in(&self, detail: &str) -> Option<&'static str> {
        let (_, rest) = detail.split_once("user_script:")?;
        let line: usize = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        let (_, call) = self.source.lines().nth(line.checked_sub(1)?)?.split_once("redis.call('")?;
        call.split('\'').next()
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
