use super::certificates::file_names;
use crate::store::net::url::UrlParameters;

fn files(query: &str) -> Result<[Option<String>; 3], String> {
    file_names(&UrlParameters::of(query))
}

#[test]
fn files_are_read_with_their_paths_decoded() {
    let files = files("db=2&sslrootcert=%2Fetc%2Fca.pem&sslcert=/c&x&sslkey=/k%20y").unwrap();
    assert_eq!(files, ["/etc/ca.pem", "/c", "/k y"].map(|path| Some(path.to_owned())));
    assert_eq!(self::files("db=2"), Ok([const { None }; 3]));
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
