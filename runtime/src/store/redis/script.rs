//! The Lua scripts, one per step.

use std::sync::LazyLock;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisResult, ServerErrorKind, Value};

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

    /// The command on the line at which the server says that the script failed.
    pub(super) fn command_in(&self, detail: &str) -> Option<&'static str> {
        let (_, rest) = detail.split_once("user_script:")?;
        let line: usize = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        let (_, call) = self.source.lines().nth(line.checked_sub(1)?)?.split_once("redis.call('")?;
        call.split('\'').next()
    }
}

/// A script with its keys and arguments.
pub(super) struct Call<'a> {
    pub(super) script: &'a Script,
    pub(super) keys: &'a [String],
    pub(super) args: &'a [String],
    /// Waits until the replicas have what the script wrote.
    pub(super) wait: Option<Wait>,
}

/// How many replicas are waited for, and for how long.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    pub(super) replicas: usize,
    pub(super) within: Duration,
}

pub(super) struct Answer {
    pub(super) value: Value,
    /// How many replicas have what the script wrote, if they were waited for.
    pub(super) replicas: usize,
}

impl Call<'_> {
    /// Runs the script by its digest; only a server that does not know it yet is sent the source.
    pub(super) async fn send(&self, connection: MultiplexedConnection, asking: bool) -> RedisResult<Answer> {
        match self.send_as("EVALSHA", &self.script.digest, connection.clone(), asking).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.send_as("EVAL", self.script.source, connection, asking).await
            }
            result => result,
        }
    }

    async fn send_as(
        &self,
        verb: &str,
        script: &str,
        mut connection: MultiplexedConnection,
        asking: bool,
    ) -> RedisResult<Answer> {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(self.keys.len()).arg(self.keys).arg(self.args);
        if !asking && self.wait.is_none() {
            return Ok(Answer { value: command.query_async(&mut connection).await?, replicas: 0 });
        }
        // One after the other over one connection: `ASKING` counts for the next command, `WAIT` for those before.
        let mut commands = redis::pipe();
        if asking {
            commands.cmd("ASKING").ignore();
        }
        commands.add_command(command);
        if let Some(Wait { replicas, within }) = self.wait {
            commands.cmd("WAIT").arg(replicas).arg(within.as_millis().max(1));
        }
        let answers: Vec<RedisResult<Value>> = commands.ignore_errors().query_async(&mut connection).await?;
        let mut answers = answers.into_iter();
        let value = answers.next().unwrap_or(Ok(Value::Nil))?;
        let replicas = match answers.next().transpose()? {
            Some(Value::Int(count)) => count.try_into().unwrap_or_default(),
            _ => 0,
        };
        Ok(Answer { value, replicas })
    }
}
