use redis::{ServerError, Value, parse_redis_value};

use super::*;
use crate::store::redis::commands::script::SWAP;

/// The error of a script that comes over the connection like this.
fn error(line: &str) -> RedisError {
    match parse_redis_value(format!("-{line}\r\n").as_bytes()) {
        Ok(Value::ServerError(error)) => of_script(ServerError::into(error), &SWAP),
        other => panic!("{line}: {other:?}"),
    }
}

/// An error on a line without a command, as Redis before 7.0 words it, and as 7.0 does.
fn both(code: &str, words: &str) -> [RedisError; 2] {
    let digest = "f_1e8b589ccf5dd852352ba15e63f22b8a9c302e71";
    [
        error(&format!(
            "ERR Error running script (call to {digest}): @user_script:1: @user_script: 1: -{code} {words}"
        )),
        error(&format!(
            "{code} {words} script: 1e8b589ccf5dd852352ba15e63f22b8a9c302e71, on @user_script:1."
        )),
    ]
}

#[test]
fn wrapped_error_counts_like_the_one_inside() {
    use StoreErrorKind::{Full, Refused, Unreachable, Unreadable};
    for (code, words, kind, is_broken) in [
        ("READONLY", "You can't write against a read only replica.", Refused, true),
        ("LOADING", "Redis is loading the dataset in memory", Unreachable, true),
        (
            "MASTERDOWN",
            "Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            Unreachable,
            true,
        ),
        ("NOREPLICAS", "Not enough good replicas to write.", Refused, true),
        ("OOM", "command not allowed when used memory > 'maxmemory'.", Full, false),
        ("MISCONF", "Redis is configured to save RDB snapshots, but …", Refused, false),
        ("NOPERM", "this user has no permissions to run the 'hset' command", Refused, false),
        ("WRONGTYPE", "Operation against a key holding the wrong kind of value", Unreadable, false),
    ] {
        for error in both(code, words) {
            assert_eq!(kind_of(&error), kind, "{error}");
            assert_eq!(fault(&error) == ConnectionFault::Broken, is_broken, "{error}");
            assert_eq!(describe(&error), format!("{code} {}", words.trim_end_matches('.')), "{error}");
        }
    }
}

#[test]
fn other_error_of_a_script_is_unreadable_data() {
    let compared = "ERR user_script:33: attempt to compare nil with number script: 1e8b, on @user_script:33.";
    assert_eq!(kind_of(&error(compared)), StoreErrorKind::Unreadable);
    assert_eq!(kind_of(&error("ERR unknown command 'EVALSHA'")), StoreErrorKind::Refused);
}

#[test]
fn missing_permission_names_the_command() {
    let line =
        1 + include_str!("../commands/swap.lua").lines().position(|line| line.contains("'LPUSH'")).unwrap();
    let digest = "1e8b589ccf5dd852352ba15e63f22b8a9c302e71";
    for words in [
        // Redis 6.2.
        format!(
            "ERR Error running script (call to f_{digest}): @user_script:{line}: @user_script: {line}: The user \
             executing the script can't run this command or subcommand"
        ),
        // Redis 7.0.
        format!(
            "ERR The user executing the script can't run this command or subcommand script: {digest}, on \
             @user_script:{line}."
        ),
        // Redis 7.2 to 8, Redict, Valkey.
        format!(
            "ERR ACL failure in script: User app has no permissions to run the 'hset' command script: {digest}, on \
             @user_script:{line}."
        ),
        // Valkey 9.1.
        format!(
            "ERR ACL failure in script: User app has no permissions to run the 'hset' command, on \
             @user_script:{line}."
        ),
    ] {
        let error = error(&words);
        assert_eq!(kind_of(&error), StoreErrorKind::Refused, "{words}");
        assert!(fault(&error) == ConnectionFault::None, "{words}");
        assert_eq!(
            describe(&error),
            "NOPERM this user has no permission to run LPUSH in a script: grant +lpush",
            "{words}"
        );
    }
    let key = format!(
        "ERR ACL failure in script: User app has no permissions to access the 'lock:a' key script: {digest}, on \
         @user_script:{line}."
    );
    assert_eq!(describe(&error(&key)), "NOPERM User app has no permissions to access the 'lock:a' key");
}
