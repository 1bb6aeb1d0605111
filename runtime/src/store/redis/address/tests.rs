use super::super::topology;
use super::*;

#[cfg(not(feature = "tls"))]
#[test]
fn tls_that_is_asked_for_is_not_silently_left_out() {
    let error = parse("rediss://:secret@host", "").unwrap_err();
    assert!(error.contains("the feature `tls`") && !error.contains("secret"), "{error}");
}

#[cfg(feature = "tls")]
#[test]
fn certificates_are_always_verified() {
    let error = parse("rediss://:secret@host#insecure", "").unwrap_err();
    assert!(error.contains("always verified") && !error.contains("secret"), "{error}");
}

#[test]
fn a_malformed_url_is_not_repeated() {
    for url in ["redis:secret@host", "http://:secret@host", "redis://:secret@host/first", "secret"] {
        let error = topology::parse(url).err().unwrap();
        assert!(!error.contains("secret") && error.contains("redis://"), "{url}: {error}");
    }
}
