//! Lua scripts, and how they are run.

use std::sync::LazyLock;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, Value};

use super::trouble;

/// A script and the digest by which the server remembers it.
pub(super) struct Script {
    source: &'static str,
    digest: String,
}

pub(super) static SWAP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("swap.lua")));
pub(super) static PUT_NOTE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("put_note.lua")));

/// How many replicas are waited for, and for how long.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    pub(super) replicas: usize,
    pub(super) within: Duration,
}

/// What a script returned.
pub(super) struct Answer {
    pub(super) value: Value,
    /// How many replicas have what the script wrote, if they were waited for.
    pub(super) replicas: usize,
}

impl Script {
    fn new(source: &'static str) -> Self {
        Self { source, digest: redis::Script::new(source).get_hash().to_owned() }
    }

    /// Runs the script by its digest; only a server that does not know it yet is sent the source. `arguments` adds the
    /// number of keys, the keys and the other arguments.
    pub(super) async fn run(
        &self,
        connection: MultiplexedConnection,
        asking: bool,
        wait: Option<Wait>,
        arguments: impl Fn(&mut Cmd),
    ) -> RedisResult<Answer> {
        let call = |verb: &str, script: &str| {
            let mut command = redis::cmd(verb);
            command.arg(script);
            arguments(&mut command);
            command
        };
        let result = match send(connection.clone(), asking, wait, call("EVALSHA", &self.digest)).await {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                send(connection, asking, wait, call("EVAL", self.source)).await
            }
            result => result,
        };
        result.map_err(|error| trouble::of_script(error, self))
    }

    /// The command on the line at which the server says that the script failed.
    pub(super) fn command_in(&self, detail: &str) -> Option<&'static str> {
        let (_, rest) = detail.split_once("user_script:")?;
        let line: usize = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        let (_, call) = self.source.lines().nth(line.checked_sub(1)?)?.split_once("call('")?;
        call.split('\'').next()
    }
}

/// Sends a command that may write.
pub(super) async fn send(
    mut connection: MultiplexedConnection,
    asking: bool,
    wait: Option<Wait>,
    command: Cmd,
) -> RedisResult<Answer> {
    if !asking && wait.is_none() {
        let value = connection.send_packed_command(&command).await?.extract_error()?;
        return Ok(Answer { value, replicas: 0 });
    }
    // One after the other over one connection: `ASKING` counts for the next command, `WAIT` for those before.
    let mut commands = redis::pipe();
    if asking {
        commands.cmd("ASKING");
    }
    commands.add_command(command);
    if let Some(Wait { replicas, within }) = wait {
        commands.cmd("WAIT").arg(replicas).arg(within.as_millis().max(1));
    }
    let answers = connection.send_packed_commands(&commands, 0, commands.len()).await?;
    let mut answers = answers.into_iter().skip(usize::from(asking)).map(Value::extract_error);
    let value = answers.next().unwrap_or(Ok(Value::Nil))?;
    let replicas = match answers.next().transpose()? {
        Some(Value::Int(count)) => count.try_into().unwrap_or_default(),
        _ => 0,
    };
    Ok(Answer { value, replicas })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_found_on_the_line_that_failed() {
        let line = 1 + SWAP.source.lines().position(|line| line.contains("'LPUSH'")).unwrap();
        let detail = format!(
            "The user executing the script can't run this command script: 1e8b, on @user_script:{line}."
        );
        assert_eq!(SWAP.command_in(&detail), Some("LPUSH"));
        assert_eq!(SWAP.command_in("no line"), None);
    }
}
