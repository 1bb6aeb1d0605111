use redis::ServerErrorKind;

use super::*;

fn is_too_old(info: &str) -> bool {
    RedisInfo::read(info).too_old().is_some()
}

fn kinds(info: &str, wait_replicas: usize) -> Vec<FindingKind> {
    RedisInfo::read(info).about_primary(wait_replicas).into_iter().map(|finding| finding.kind).collect()
}

#[test]
fn a_version_below_six_point_two_is_too_old() {
    for (version, too_old) in
        [("5.0.14", true), ("6.0.16", true), ("6.2.0", false), ("7.0.15", false), ("10.1.0", false)]
    {
        let info = format!("# Server\r\nredis_version:{version}\r\ngcc_version:12.2.0\r\n");
        assert_eq!(is_too_old(&info), too_old, "{version}");
    }
}

#[test]
fn a_server_of_another_kind_is_not_judged_by_the_version_it_resembles() {
    assert!(!is_too_old("redis_version:4.0.0\r\nkvrocks_version:2.9.0\r\n"));
    assert!(!is_too_old("redis_version:unstable\r\n"));
}

#[test]
fn only_a_master_is_a_primary() {
    assert_eq!(RedisInfo::read("role:master\r\n").not_primary(), None);
    for (info, words) in [
        ("role:slave\r\nmaster_host:db1\r\nmaster_port:6379\r\n", "replica of db1:6379"),
        ("role:active-replica\r\n", "active replica: it and its peer both accept writes"),
        ("role:sentinel\r\n", "role is `sentinel`"),
    ] {
        let message = RedisInfo::read(info).not_primary().expect(info);
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn keydb_is_refused_only_with_wait_replicas() {
    let keydb = "role:master\r\nredis_version:6.3.4\r\n# KeyDB\r\nmvcc_depth:0\r\n";
    let plain = "role:master\r\nredis_version:7.0.15\r\n";
    assert_eq!(kinds(keydb, 1), [Other]);
    assert_eq!([kinds(keydb, 0), kinds(plain, 1)], [[], []]);
}

#[test]
fn claims_that_wait_for_replicas_survive_a_failover() {
    let info = "role:master\r\nconnected_slaves:2\r\n";
    assert_eq!(kinds(info, 0), [LosesOnFailover]);
    assert_eq!(kinds(info, 1), []);
    assert_eq!(kinds(info, 3), [TooFewReplicas]);
}

#[test]
fn what_is_refused_is_not_an_error_and_a_broken_connection_is() {
    let refused: RedisResult<()> = Err((ErrorKind::Server(ServerErrorKind::NoPerm), "NOPERM").into());
    assert_eq!(if_allowed(refused), Ok(None));
    let broken: RedisResult<()> = Err((ErrorKind::Io, "gone").into());
    assert!(if_allowed(broken).is_err());
}
