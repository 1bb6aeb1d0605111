//! Jobs over encrypted connections.

use jobs::store::postgres::PostgresStore;
use jobs::store::redis::RedisStore;
use jobs::store::{Certificates, Store};
use jobs::{Builder, Job};
use tokio::sync::{OnceCell, mpsc};
use tokio_postgres::types::Type;

use support::certificates::{Authority, Identity};
use support::fleet::Orders;
use support::folder::TempFolder;
use support::postgres_server::{PATIENCE, PostgresServer};
use support::redis_server::RedisServer;

const HERE: [&str; 2] = ["localhost", "127.0.0.1"];

fn redis(authority: &Authority, folder: &TempFolder, clients: &str) -> RedisServer {
    let own = authority.server(&HERE).put_into(folder, "redis");
    let root = folder.put("root.pem", &authority.certificate);
    RedisServer::start_encrypted(&[
        "--tls-cert-file",
        &own.certificate,
        "--tls-key-file",
        &own.key,
        "--tls-ca-cert-file",
        &root,
        "--tls-auth-clients",
        clients,
    ])
}

/// A server whose user `jobs` needs TLS and a password.
fn start_postgres(own: &Identity) -> PostgresServer {
    let rules = "hostssl all jobs 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n";
    PostgresServer::start_with_files(
        &["ssl=on", "ssl_cert_file=server.pem", "ssl_key_file=server.key"],
        &[("server.pem", &own.certificate), ("server.key", &own.key), ("pg_hba.conf", rules)],
    )
}

/// One for all tests that need no other, and who vouches for it.
async fn postgres() -> &'static (Authority, PostgresServer) {
    static SHARED: OnceCell<(Authority, PostgresServer)> = OnceCell::const_new();
    let start = async || {
        let authority = Authority::new("ours");
        let server = start_postgres(&authority.server(&HERE));
        add_user(&server).await;
        (authority, server)
    };
    SHARED.get_or_init(start).await
}

async fn add_user(server: &PostgresServer) {
    let user = "CREATE ROLE jobs LOGIN PASSWORD 'right'; GRANT ALL ON SCHEMA public TO jobs";
    server.client().await.batch_execute(user).await.unwrap();
}

/// A whole server, which runs a job.
async fn runs_a_job(builder: Builder) {
    let (tell, mut told) = mpsc::unbounded_channel();
    let job = Job::builder("import-products")
        .every("100ms")
        .run(move |run| {
            let _nobody_listens_any_longer = tell.send(run.fence());
            async {}
        })
        .build()
        .unwrap();
    let jobs = builder.without_annotated().job(job).start_all().await.expect("it starts");
    let first = tokio::time::timeout(PATIENCE, told.recv()).await.expect("a run").unwrap();
    let second = tokio::time::timeout(PATIENCE, told.recv()).await.expect("another run").unwrap();
    assert!(second > first);
    jobs.shutdown().await;
}

#[tokio::test]
async fn a_server_runs_its_jobs_over_an_encrypted_redis() {
    let (authority, folder) = (Authority::new("ours"), TempFolder::new());
    let redis = redis(&authority, &folder, "yes");
    let own = authority.client("jobs").put_into(&folder, "jobs");
    let root = folder.put("root.pem", &authority.certificate);
    let url = format!(
        "rediss://localhost:{}/1?sslrootcert={root}&sslcert={}&sslkey={}",
        redis.tls_port(),
        own.certificate,
        own.key
    );
    runs_a_job(jobs::builder().url(url)).await;
}

#[tokio::test]
async fn a_server_runs_its_jobs_over_an_encrypted_postgres() {
    let ((authority, server), folder) = (postgres().await, TempFolder::new());
    let root = folder.put("root.pem", &authority.certificate);
    let url = format!("{}?sslmode=verify-full&sslrootcert={root}", server.url_of("jobs:right"));
    runs_a_job(jobs::builder().url(url)).await;
}

#[tokio::test]
async fn certificates_can_be_given_in_memory() {
    let (authority, folder) = (Authority::new("ours"), TempFolder::new());
    let (redis, own) = (redis(&authority, &folder, "yes"), authority.client("jobs"));
    let certificates = Certificates::default().root(authority.certificate.as_bytes());
    let both = certificates.clone().client(own.certificate.as_bytes(), own.key.as_bytes());
    assert!(!format!("{both:?}").contains("BEGIN"), "{both:?}");
    let url = format!("rediss://127.0.0.1:{}", redis.tls_port());
    let store = RedisStore::open_with(&url, None, both).unwrap().with_timeouts(PATIENCE, PATIENCE);
    store.look("k").await.expect("it shows its certificate");
    let store = RedisStore::open_with(&url, None, certificates.clone()).unwrap();
    store.with_timeouts(PATIENCE, PATIENCE).look("k").await.expect_err("it shows none");
    let plain = RedisStore::open_with(&redis.url(), None, certificates).expect_err("without TLS");
    assert!(plain.to_string().contains("write rediss://"), "{plain}");

    let (authority, server) = postgres().await;
    let certificates = Certificates::default().root(authority.certificate.as_bytes());
    let store = PostgresStore::open_with(&server.url_of("jobs:right"), None, certificates).unwrap();
    store.with_timeouts(PATIENCE, PATIENCE).look("k").await.expect("verified");
    let other = Certificates::default().root(Authority::new("theirs").certificate.as_bytes());
    let store = PostgresStore::open_with(&server.url_of("jobs:right"), None, other).unwrap();
    store.with_timeouts(PATIENCE, PATIENCE).look("k").await.expect_err("another's");
}

/// The password is tied to the connection, with every hash that a certificate may be signed with.
#[tokio::test]
async fn password_is_bound_to_its_tls_connection() {
    let folder = TempFolder::new();
    let kinds = [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519];
    let mut server = start_postgres(&Authority::new("first").server(&HERE));
    add_user(&server).await;
    for (kind, tied) in kinds.into_iter().zip([true, true, false]) {
        let authority = Authority::with("ours", kind);
        let own = authority.server(&HERE);
        std::fs::write(server.data().join("server.pem"), &own.certificate).unwrap();
        std::fs::write(server.data().join("server.key"), &own.key).unwrap();
        server.restart();
        let root = folder.put("root.pem", &authority.certificate);
        let url = format!("{}?sslrootcert={root}", server.url_of("jobs:right"));
        let ping = async |url: &str| {
            let store = PostgresStore::open(url, None).unwrap().with_timeouts(PATIENCE, PATIENCE);
            store.look("k").await
        };
        let bound = ping(&format!("{url}&channel_binding=require")).await;
        assert_eq!(bound.is_ok(), tied, "{kind:?}: {bound:?}");
        ping(&url).await.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
    }
}

#[tokio::test]
async fn postgres_connection_is_encrypted_by_default_if_the_server_offers_it() {
    let (_, server) = postgres().await;
    let asking = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = $1";
    for (number, (rest, encrypted)) in
        [("", true), ("&sslmode=prefer", true), ("&sslmode=disable", false)].into_iter().enumerate()
    {
        let name = format!("offered-{number}");
        let url = format!("{}?application_name={name}{rest}", server.url());
        let store = PostgresStore::open(&url, None).unwrap().with_timeouts(PATIENCE, PATIENCE);
        store.look("k").await.expect("it is reached");
        let rows = server.client().await.query_typed(asking, &[(&name, Type::TEXT)]).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<bool>>(), [encrypted], "{url}");
    }
}

/// `SSL_CERT_FILE` stands for the system's root certificates.
pub fn a_server_trusts_the_root_certificates_of_the_system() {
    let (authority, folder) = (Authority::new("ours"), TempFolder::new());
    let redis = redis(&authority, &folder, "no");
    let orders = Orders::role("serve").set("JOBS_URL", format!("rediss://localhost:{}", redis.tls_port()));
    let orders = orders.set("SSL_CERT_DIR", "");
    let trusting = orders.clone().set("SSL_CERT_FILE", folder.put("system.pem", &authority.certificate));
    trusting.start().wait_for("run end");

    let other = folder.put("other.pem", &Authority::new("theirs").certificate);
    let refused = orders.clone().set("SSL_CERT_FILE", other).start().wait_for("refused");
    assert!(refused.contains("no authority that this server trusts"), "{refused}");
    let none = orders.clone().set("SSL_CERT_FILE", folder.put("none.pem", "")).start().wait_for("refused");
    assert!(none.contains("this machine has no root certificates"), "{none}");
    let missing = orders.set("SSL_CERT_FILE", "/nowhere/roots.pem").start().wait_for("refused");
    assert!(missing.contains("/nowhere/roots.pem"), "{missing}");
}
