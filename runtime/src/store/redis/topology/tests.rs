use super::*;

fn location(url: &str) -> String {
    parse(url).map_or_else(|error| panic!("{url}: {error}"), |target| target.location)
}

fn refused(url: &str) -> String {
    parse(url).err().unwrap_or_else(|| panic!("{url} was read"))
}

#[test]
fn location_is_the_url_without_its_password() {
    for (url, expected) in [
        ("redis://localhost", "redis://localhost:6379/0"),
        ("redis://:secret@10.0.0.1:7000/3", "redis://10.0.0.1:7000/3"),
        ("redis://jobs:secret@cache.internal/", "redis://jobs@cache.internal:6379/0"),
        ("redis://secret@cache.internal/", "redis://cache.internal:6379/0"),
        ("redis://[::1]:6380", "redis://[::1]:6380/0"),
        ("redis+unix:///run/redis.sock?db=2&pass=secret", "redis+unix:///run/redis.sock?db=2"),
    ] {
        assert_eq!(location(url), expected);
    }
}

#[test]
fn parameters_are_read() {
    let parameters = |url| parse(url).expect(url);
    assert_eq!(parameters("redis://host").wait_replicas, 0);
    let timeouts = parameters("redis://host?response_timeout=500ms").timeouts;
    assert_eq!(timeouts.response.as_millis(), 500);
    assert_eq!(parameters("redis+unix:///r.sock?db=3&wait_replicas=1").wait_replicas, 1);
}

#[test]
fn unusable_parameter_is_refused_and_not_repeated() {
    for query in [
        "wait_replicas=1&wait_replicas=0",
        "wait_replicas=1&secret=1",
        "secret",
        "wait_replicas=secret",
        "wait_replicas=-1",
    ] {
        let error = refused(&format!("redis://host?{query}"));
        assert!(!error.contains("secret") && error.contains("wait_replicas"), "{query}: {error}");
    }
}

#[test]
fn one_server_is_reached_by_its_own_url() {
    assert_eq!(location("redis://:secret@host/3?wait_replicas=1"), "redis://host:6379/3");
    assert_eq!(location("redis+unix:///r.sock?db=2&pass=secret&user=u"), "redis+unix:///r.sock?db=2");
    for (url, expected) in [
        ("valkey://:secret@host/3", "redis://host:6379/3"),
        ("valkey+unix:///r.sock?db=2", "redis+unix:///r.sock?db=2"),
        ("valkey+sentinel://a/m", "redis+sentinel://a:26379/m/0"),
        ("valkey+cluster://a", "redis+cluster://a:6379"),
        #[cfg(feature = "tls")]
        ("valkeys://host", "rediss://host:6379/0"),
    ] {
        assert_eq!(location(url), expected);
    }
    let error = refused("redis://host/?db=3");
    assert!(error.contains("known are wait_replicas"), "{error}");
    let error = refused("redis+unix:///r.sock?secret=1");
    assert!(error.contains("sslkey, db, user, pass") && !error.contains("secret"), "{error}");
}

#[test]
fn sentinels_are_listed_with_the_masters_name() {
    for (url, expected) in [
        ("redis+sentinel://a/m", "redis+sentinel://a:26379/m/0"),
        ("redis+sentinel://secret@a/m", "redis+sentinel://a:26379/m/0"),
        (
            "redis+sentinel://u:secret@a:1,[::1],c:3/m/4?sentinel_password=secret",
            "redis+sentinel://u@a:1,[::1]:26379,c:3/m/4",
        ),
    ] {
        assert_eq!(location(url), expected);
    }
    let parsed = parse("redis+sentinel://u:p@a,b/m/4?sentinel_username=jobs&sentinel_password=a%26b+c");
    let Topology::Sentinel { sentinels, name, master } = parsed.ok().unwrap().topology else {
        panic!("not sentinels");
    };
    for info in &sentinels {
        let own = info.redis_settings();
        assert_eq!((own.username(), own.password(), own.db()), (Some("jobs"), Some("a&b+c"), 0));
    }
    let master = master.redis_settings();
    assert_eq!((master.username(), master.password(), master.db()), (Some("u"), Some("p"), 4));
    assert_eq!((sentinels.len(), name.as_str()), (2, "m"));
}

#[test]
fn some_nodes_of_a_cluster_are_listed() {
    for (url, expected) in [
        ("redis+cluster://a", "redis+cluster://a:6379"),
        ("redis+cluster://secret@a", "redis+cluster://a:6379"),
        ("redis+cluster://u:secret@a:1,b/?wait_replicas=1", "redis+cluster://u@a:1,b:6379"),
    ] {
        assert_eq!(location(url), expected);
    }
    assert!(refused("redis+cluster://a/1").contains("no databases"));
}

#[test]
fn a_malformed_url_is_not_repeated() {
    for url in [
        "redis+sentinel://:secret@a,b",
        "redis+sentinel://:secret@a,b/",
        "redis+sentinel://:secret@/m",
        "redis+sentinel://:secret@a:first,b/m",
        "redis+sentinel://:secret@a/m/first",
        "redis+sentinel://user:12/secret@a/m",
        "redis+sentinel://user:12?secret@a/m",
        "redis+sentinel://:p@a/m?sentinel_password=1&secret=2",
        "redis+sentinel://:p@a/m?wait_replicas=secret",
        "redis+cluster://:secret@a,,b",
        "redis+cluster://user:12/secret@a",
        "redis+cluster://user:12#secret@a",
        "redis+cluster://:secret@a?sentinel_password=secret",
    ] {
        let error = refused(url);
        let helps = error.contains("expected `redis+")
            || error.contains("known are")
            || error.contains("wait_replicas=1");
        assert!(!error.contains("secret") && helps, "{url}: {error}");
    }
}
