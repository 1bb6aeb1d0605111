use crate::store::postgres::PostgresStore;

#[test]
fn tls_that_is_asked_for_is_not_silently_left_out() {
    for parameters in [
        "sslmode=require",
        "sslmode=verify-full",
        "sslmode=verify-ca",
        "sslrootcert=/ca.pem",
        "sslrootcert=system",
    ] {
        let url = format!("postgres://jobs:secret@host/shop?{parameters}");
        let error = PostgresStore::open(&url, None).expect_err(parameters).to_string();
        assert!(error.contains("the feature `tls`") && !error.contains("secret"), "{error}");
    }
}
