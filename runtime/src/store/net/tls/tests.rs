use super::*;

fn files(query: &str) -> Result<Files, String> {
    Files::named_in(&Parameters::of(query))
}

#[test]
fn files_are_read_with_their_paths_decoded() {
    let files = files("db=2&sslrootcert=%2Fetc%2Fca.pem&sslcert=/c&x&sslkey=/k%20y").unwrap();
    assert_eq!(files.root.as_deref(), Some("/etc/ca.pem"));
    assert_eq!((files.certificate.as_deref(), files.key.as_deref()), (Some("/c"), Some("/k y")));
    assert_eq!(self::files("db=2"), Ok(Files::default()));
}

#[test]
fn half_an_identity_and_a_file_without_a_name_are_refused() {
    for (parameters, word) in [
        ("sslcert=/c", "go together"),
        ("sslkey=/k", "go together"),
        ("sslrootcert=", "names no file"),
        ("sslrootcert", "names no file"),
        ("sslrootcert=/a&sslrootcert=/b", "twice"),
        ("sslrootcert=%ff", "UTF-8"),
    ] {
        let error = files(parameters).unwrap_err();
        assert!(error.contains(word), "{parameters}: {error}");
    }
}
