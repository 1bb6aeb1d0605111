use super::*;

#[test]
fn a_location_is_the_url_without_its_password() {
    for (url, location) in [
        ("postgres://localhost", "postgres://localhost:5432"),
        ("postgresql://jobs:secret@db.internal:6432/shop", "postgres://jobs@db.internal:6432/shop"),
        ("postgres://jobs:secret@a,b:6432/shop?schema=x", "postgres://jobs@a:5432,b:6432/shop"),
        ("postgres://jobs@[::1]:5433/shop", "postgres://jobs@[::1]:5433/shop"),
        ("postgres://jobs:p?schema=secret@db/shop", "postgres://jobs@db:5432/shop"),
        ("postgres://jobs@/shop?hostaddr=10.0.0.1", "postgres://jobs@10.0.0.1:5432/shop"),
        ("postgres:///shop?host=/run/pg&password=secret", "postgres:///run/pg:5432/shop"),
    ] {
        assert_eq!(without_password(&parse(url).unwrap().config), location);
    }
}

#[test]
fn time_outs_are_parameters_and_a_bare_number_is_in_seconds_as_the_client_has_it() {
    for (url, connect, response) in [
        ("postgres://localhost/shop", 2000, 1000),
        ("postgres://localhost/shop?connect_timeout=3", 3000, 1000),
        ("postgres://localhost/shop?connect_timeout=250ms&response_timeout=3s&schema=jobs", 250, 3000),
        ("postgres://a,b,c/shop?connect_timeout=3", 9000, 1000),
    ] {
        let PostgresAddress { config, timeouts, .. } = parse(url).expect(url);
        let millis = [timeouts.connect, timeouts.response].map(|timeout| timeout.as_millis());
        assert_eq!(millis, [connect, response], "{url}");
        let hosts = u32::try_from(config.get_hosts().len()).unwrap();
        assert_eq!(config.get_connect_timeout(), Some(&(timeouts.connect / hosts)), "{url}");
    }
    for (parameter, says) in [
        ("connect_timeout=0", "invalid `connect_timeout`: expected from 10ms to 60s"),
        (
            "response_timeout=3",
            "invalid `response_timeout`: expected a number with a unit, as in 2s or 500ms",
        ),
    ] {
        assert_eq!(parse(&format!("postgres://host/db?{parameter}")).err().as_deref(), Some(says));
    }
}

#[test]
fn malformed_url_is_not_repeated() {
    for url in [
        "postgres:secret@host",
        "postgres://u:secret@host:first/db",
        "postgres://u:secret",
        "postgres://u:p?secret",
        "postgres://u:secret@host/db?pool=3",
        "postgres://u:secret@",
        "postgres://u:p@secret@host/db",
        "postgres://u:p@x?secret=1@host/db",
        "postgres://u:a@b/secret@host/db",
        "postgres://u:a@b?schema=secret@host/db",
        "postgres://host/db?password=secret@1",
        "postgres://host/db?password=a&secret=1",
        "postgres://host/db?user=u&password=secret@host/db",
        "mysql://u:secret@host/db",
        "secret://u:secret@host/db",
        "host=db password=secret",
        "secret",
    ] {
        let error = parse(url).err().expect(url);
        assert!(!error.contains("secret") && error.contains("postgres://"), "{url}: {error}");
    }
}

#[test]
fn our_parameters_stand_beside_the_clients_own() {
    for (url, schema, sslmode) in [
        ("postgres://db/shop?schema=jobs", Some("jobs"), None),
        (
            "postgres://db/shop?keepalives=0&schema=jobs&sslmode=verify-ca&sslrootcert=system",
            Some("jobs"),
            Some("verify-ca"),
        ),
        ("postgres://db/shop?sslmode=disable", None, Some("disable")),
        ("postgres://jobs:p?schema=x@db/shop?schema=jobs", Some("jobs"), None),
    ] {
        if cfg!(not(feature = "tls")) && url.contains("sslrootcert") {
            assert!(parse(url).is_err(), "{url}");
            continue;
        }
        let address = parse(url).expect(url);
        assert_eq!((address.schema.as_deref(), address.sslmode.as_deref()), (schema, sslmode), "{url}");
        assert_eq!(address.config.get_keepalives(), !url.contains("keepalives=0"), "{url}");
        assert_eq!(address.config.get_dbname(), Some("shop"), "{url}");
    }
}
