//! Lua scripts, and how they are run.

use std::sync::LazyLock;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, Value};

use crate::store::redis::errors;

/// A script and the digest by which the server remembers it.
pub(crate) struct Script {
    source: &'static str,
    digest: String,
}

pub(crate) static SWAP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("swap.lua")));
pub(crate) static PUT_NOTE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("put_note.lua")));

impl Script {
    fn new(source: &'static str) -> Self {
        Self { source, digest: redis::Script::new(source).get_hash().to_owned() }
    }

    /// Runs the script by its digest; only a server that does not know it yet is sent the source. `arguments` adds the
    /// number of keys, the keys and the other arguments.
    pub(crate) async fn run(
        &self,
        connection: MultiplexedConnection,
        asking: bool,
        wait: Option<&Cmd>,
        arguments: impl Fn(&mut Cmd),
    ) -> RedisResult<(Value, usize)> {
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
        result.map_err(|error| errors::of_script(error, self))
    }

    /// The command on the line at which the server says that the script failed.
    pub(crate) fn command_in(&self, detail: &str) -> Option<&'static str> {
        let (_, rest) = detail.split_once("user_script:")?;
        let line: usize = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        let (_, call) = self.source.lines().nth(line.checked_sub(1)?)?.split_once("call('")?;
        call.split('\'').next()
    }
}

/// Sends a command that may write, and then one that waits for replicas. Returns the answer, and how many replicas have what
/// was written, if they were waited for.
pub(crate) async fn send(
    mut connection: MultiplexedConnection,
    asking: bool,
    wait: Option<&Cmd>,
    command: Cmd,
) -> RedisResult<(Value, usize)> {
    if !asking && wait.is_none() {
        return Ok((connection.send_packed_command(&command).await?.extract_error()?, 0));
    }
    // One after the other over one connection: `ASKING` counts for the next command, `WAIT` for those before.
    let mut commands = redis::pipe();
    if asking {
        commands.cmd("ASKING");
    }
    commands.add_command(command);
    if let Some(wait) = wait {
        commands.add_command(wait.clone());
    }
    let answers = connection.send_packed_commands(&commands, 0, commands.len()).await?;
    let mut answers = answers.into_iter().skip(usize::from(asking)).map(Value::extract_error);
    let value = answers.next().unwrap_or(Ok(Value::Nil))?;
    let replicas = match answers.next().transpose()? {
        Some(Value::Int(count)) => count.try_into().unwrap_or_default(),
        _ => 0,
    };
    Ok((value, replicas))
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
