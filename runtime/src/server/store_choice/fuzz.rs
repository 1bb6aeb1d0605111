//! Arbitrary URLs with a secret somewhere in them: never a panic, and the secret is never printed.

use std::error::Error;

use fuzz::{Target, Verdict};
use percent_encoding::percent_decode_str;

use super::open_url;
use crate::store::StoreError;
use crate::store::postgres::PostgresStore;
use crate::store::redis::RedisStore;

/// The words of the secret, as they are and with an encoded letter.
const SECRET: [&str; 3] = ["hunter2", "h%75nter2", "swordfish"];

const TARGET: Target<'_> = Target {
    corpus: "urls",
    words: "
            hunter2 h%75nter2 swordfish :// : @ / ? # & = , % %40 %2F %zz %00 [ ] + redis rediss
            valkey sentinel cluster unix postgres postgresql mysql 6379 65536 schema sslmode
            password pass user host dbname hostaddr options connect_timeout wait_replicas
            sentinel_password sslcert port localhost ::1 db
        ",
    cases: 2_000,
    kinds: &["accepted", "refused"],
};

/// Everything that is printed of a URL.
struct Printed {
    /// Of a URL that is refused.
    errors: Vec<String>,
    /// Of a store that is open.
    locations: Vec<String>,
}

fn of_store<S: crate::store::Store + std::fmt::Debug>(opened: Result<S, StoreError>, printed: &mut Printed) {
    match opened {
        Ok(store) => printed.locations.extend([store.location(), format!("{store:?}")]),
        Err(error) => {
            let mut source = error.source();
            while let Some(error) = source {
                printed.errors.push(format!("{error} {error:?}"));
                source = error.source();
            }
            printed.errors.extend([error.to_string(), format!("{error:?}"), error.cause().to_string()]);
        }
    }
}

fn printed(url: &str) -> Printed {
    let mut printed = Printed { errors: Vec::new(), locations: Vec::new() };
    match open_url(url, None, "JOBS_URL".to_owned()) {
        Ok(opened) => printed.locations.push(opened.store.location()),
        Err(error) => printed.errors.extend([error.to_string(), format!("{error:?}")]),
    }
    of_store(RedisStore::open(url, None), &mut printed);
    of_store(PostgresStore::open(url, None), &mut printed);
    #[cfg(feature = "mysql")]
    of_store(crate::store::mysql::MysqlStore::open(url, None), &mut printed);
    printed
}

/// The parts of a URL that may be shown once it was read: host, path, a user beside a password, and in a query a host, a
/// user, a database and a schema. By another rule than that of the stores: everything up to the last `@` may be a password.
fn public_part(url: &str) -> String {
    let url = url.trim();
    // The path of a socket, which may have any character.
    if let Some((_, path)) = url.split_once("unix:") {
        let path = path.split('?').next().unwrap_or_default();
        let path = path
            .strip_prefix("//")
            .map_or(path, |path| path.split_at(path.find('/').unwrap_or(path.len())).1);
        return path.to_owned();
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (credentials, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
    let user = match credentials.split_once(':') {
        Some((user, _)) => user,
        None if ["postgres", "mysql", "mariadb"].iter().any(|name| scheme.starts_with(name)) => credentials,
        None => "",
    };
    let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
    let shown = ["host=", "hostaddr=", "user=", "dbname=", "port=", "schema="];
    let query = query.split('&').filter(|parameter| shown.iter().any(|name| parameter.starts_with(name)));
    format!("{scheme} {user} {address} {}", query.collect::<Vec<_>>().join(" "))
}

fn check(case: &[u8], printed: fn(&str) -> Printed) -> Verdict {
    let url = String::from_utf8_lossy(case);
    // A folder or a file would be created. Neither a path nor a name in memory is a secret.
    if ["file:///", "memory://", "sqlite:///"].iter().any(|scheme| url.trim().starts_with(scheme)) {
        return Ok("without a secret");
    }
    let Printed { errors, locations } = printed(&url);
    // The path of a certificate is no secret, and an error that does not name it is of no use.
    let paths = ["sslrootcert=", "sslcert=", "sslkey="].iter().filter_map(|name| url.split_once(name));
    let paths: Vec<_> = paths.filter_map(|(_, path)| path.split('&').next()).map(decoded).collect();
    let public = decoded(&public_part(&url));
    for word in SECRET {
        let leak = |text: &&String| text.to_lowercase().contains(word);
        let names_a_file =
            |text: &String| text.contains("cannot read") && paths.iter().any(|path| path.contains(word));
        if let Some(error) = errors.iter().find(|error| leak(error) && !names_a_file(error)) {
            return Err(format!("the error repeats a part of the URL: {error}"));
        }
        if let Some(location) = locations.iter().find(leak).filter(|_| !public.contains(word)) {
            return Err(format!("the location has a part of the secret: {location}"));
        }
    }
    // Only one store can open it.
    Ok(if locations.is_empty() { "refused" } else { "accepted" })
}

fn decoded(text: &str) -> String {
    format!("{text} {}", percent_decode_str(text).decode_utf8_lossy()).to_lowercase()
}

#[test]
fn secret_in_a_url_is_never_printed() {
    TARGET.run(|case| check(case, printed));
}

/// Hides what is between a colon and the next `@`, which is right for every correct URL with a plain password.
#[test]
fn redaction_that_misses_one_position_is_found() {
    let redacts = |url: &str| {
        let (before, rest) = url.split_once("://").unwrap_or(("", url));
        let (credentials, address) = rest.split_once('@').unwrap_or(("", rest));
        let user = credentials.split(':').next().unwrap_or_default();
        Printed {
            errors: vec![format!("cannot open {before}://{user}:***@{address}")],
            locations: Vec::new(),
        }
    };
    TARGET.finds("a redaction of the password position alone", |case| check(case, redacts));
}

#[test]
fn location_with_the_encoded_password_is_found() {
    let shows = |url: &str| {
        let location = url.replace("hunter2", "***").replace("swordfish", "***");
        Printed { errors: Vec::new(), locations: vec![location] }
    };
    TARGET.finds("a location with the encoded password", |case| check(case, shows));
}
