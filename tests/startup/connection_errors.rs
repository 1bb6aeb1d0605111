//! Why a store cannot be reached, told so that the reader knows what to do: what failed, where, and the remedy.
//!
//! Each table ends with a control: the same servers are reached by a URL without the mistake.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use jobs::store::postgres::PostgresStore;
use jobs::store::redis::RedisStore;
use jobs::store::{Store, StoreError, StoreErrorKind};
use jobs::{Job, StartError};

use StoreErrorKind::{Misconfigured, Refused, TimedOut, Unreachable, Untrusted};
use support::certificates::{Authority, Identity, Paths};
use support::folder::TempFolder;
use support::postgres_server::{PATIENCE, PostgresServer};
use support::redis_server::RedisServer;

/// Part of every password here; no message may repeat it.
const SECRET: &str = "s3cr3t";

/// The names under which a server is found here.
const HERE: [&str; 2] = ["localhost", "127.0.0.1"];

/// A URL, what kind of error it leads to, and what the message says beside the location.
type Case = (String, StoreErrorKind, &'static [&'static str]);

fn open(url: &str, patience: Duration) -> Result<Arc<dyn Store>, StoreError> {
    if url.starts_with("postgres") {
        Ok(Arc::new(PostgresStore::open(url, None)?.with_timeouts(patience, patience)))
    } else {
        Ok(Arc::new(RedisStore::open(url, None)?.with_timeouts(patience, patience)))
    }
}

/// The URL's scheme, and its host with the port: what a message has to name.
fn scheme_and_host(url: &str) -> (&str, &str) {
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    (scheme, rest.split(['/', '?']).next().expect("a host"))
}

async fn check(cases: &[Case]) {
    for (url, kind, says) in cases {
        let kind = *kind;
        let patience = if kind == TimedOut { Duration::from_millis(500) } else { PATIENCE };
        let store = open(url, patience).unwrap_or_else(|error| panic!("{url}: {error}"));
        let error = store.look("k").await.expect_err(url);
        assert_eq!(error.kind(), kind, "{url}: {error}");
        let said = error.to_string();
        let (scheme, host) = scheme_and_host(url);
        assert!(
            said.starts_with(&format!("look failed on {scheme}://")) && said.contains(host),
            "{url}: {said}"
        );
        for words in *says {
            assert!(said.contains(words), "{url}: \"{words}\" is not in \"{said}\"");
        }
        let everything = format!("{said} {error:?} {}", store.location());
        assert!(!everything.contains(SECRET), "{everything}");
    }
}

async fn works(url: &str) {
    let store = open(url, PATIENCE).unwrap_or_else(|error| panic!("{url}: {error}"));
    store.look("k").await.unwrap_or_else(|error| panic!("{url}: {error}"));
}

/// An authority, a stranger, and what they signed, as files.
struct Pki {
    folder: TempFolder,
    authority: Authority,
    root: String,
    other_root: String,
    client: Paths,
    stranger: Paths,
}

impl Pki {
    fn new() -> Self {
        let (folder, authority, other) =
            (TempFolder::new(), Authority::new("ours"), Authority::new("theirs"));
        Self {
            root: folder.put("root.pem", &authority.certificate),
            other_root: folder.put("other-root.pem", &other.certificate),
            client: authority.client("jobs").put_into(&folder, "client"),
            stranger: other.client("jobs").put_into(&folder, "stranger"),
            folder,
            authority,
        }
    }
}

#[tokio::test]
async fn error_of_a_redis_that_refuses_the_connection_has_reason_and_remedy() {
    let redis = RedisServer::start_with(&["--requirepass", "s3cr3t-right"]);
    let host = format!("127.0.0.1:{}", redis.port());
    let right = format!("redis://:s3cr3t-right@{host}");
    let administrator = redis::Client::open(right.as_str()).unwrap();
    let mut administrator = administrator.get_multiplexed_async_connection().await.unwrap();
    let limited = "ACL SETUSER limited on >s3cr3t-right ~* +evalsha +eval";
    let mut command = redis::Cmd::new();
    for word in limited.split(' ') {
        command.arg(word);
    }
    let () = command.query_async(&mut administrator).await.unwrap();

    check(&[
        (format!("redis://:s3cr3t-wrong@{host}"), Refused, &["wrong user or password", "in the URL"]),
        (format!("redis://nobody:s3cr3t-right@{host}"), Refused, &["nobody@", "wrong user or password"]),
        (format!("redis://{host}"), Refused, &["asks for a password", "the URL has none"]),
        (format!("{right}/99"), Misconfigured, &["DB index is out of range", "number at the end of the URL"]),
        (format!("redis://limited:s3cr3t-right@{host}"), Refused, &["NOPERM", "'time'", "permissions"]),
    ])
    .await;
    works(&right).await;
}

#[tokio::test]
async fn error_of_a_redis_without_mutual_trust_has_reason_and_remedy() {
    let pki = Pki::new();
    let authority = &pki.authority;
    let start = |name: &str, own: Identity, clients: &str| {
        let own = own.put_into(&pki.folder, name);
        RedisServer::start_encrypted(&[
            "--tls-cert-file",
            &own.certificate,
            "--tls-key-file",
            &own.key,
            "--tls-ca-cert-file",
            &pki.root,
            "--tls-auth-clients",
            clients,
        ])
    };
    let redis = start("good", authority.server(&HERE), "no");
    let demanding = start("demanding", authority.server(&HERE), "yes");
    let misnamed = start("misnamed", authority.server(&["cache.internal"]), "no");
    let expired = start("expired", authority.expired_server(&HERE), "no");
    let lazy = start("lazy", authority.itself(), "no");
    let url = |server: &RedisServer, rest: &str| {
        format!("rediss://jobs:s3cr3t@127.0.0.1:{}?sslrootcert={rest}", server.tls_port())
    };
    let (root, other_root) = (&pki.root, &pki.other_root);
    let shown = |own: &Paths| format!("{root}&sslcert={}&sslkey={}", own.certificate, own.key);
    check(&[
        (url(&redis, other_root), Untrusted, &["has signed the store's certificate", "sslrootcert="]),
        (url(&redis, "system"), Untrusted, &["has signed the store's certificate", "sslrootcert="]),
        (url(&misnamed, root), Untrusted, &["not for this host name, but for cache.internal:", "use a name"]),
        (url(&expired, root), Untrusted, &["not valid at this time", "renew it", "clock"]),
        (url(&lazy, root), Untrusted, &["is that of a CA", "one of its own"]),
        (url(&demanding, root), Untrusted, &["client certificate", "sslcert=", "sslkey="]),
        (url(&demanding, &shown(&pki.stranger)), Untrusted, &["does not accept", "UnknownCA", "sslcert"]),
        (
            format!("rediss://:s3cr3t@127.0.0.1:{}?sslrootcert={root}", redis.port()),
            TimedOut,
            &["no connection in time", "that the server speaks TLS", "redis://"],
        ),
        (
            format!("redis://:s3cr3t@127.0.0.1:{}", redis.tls_port()),
            Unreachable,
            &["closed the connection", "rediss://"],
        ),
    ])
    .await;
    works(&url(&redis, root).replace("jobs:s3cr3t@", "")).await;
    works(&url(&demanding, &shown(&pki.client)).replace("jobs:s3cr3t@", "")).await;
}

#[tokio::test]
async fn error_of_a_postgres_that_refuses_the_connection_has_reason_and_remedy() {
    let pki = Pki::new();
    // By its address it is the wrong one.
    let own = pki.authority.server(&["localhost"]);
    let rules = "hostssl all jobs 127.0.0.1/32 scram-sha-256\n\
                 hostssl all known 127.0.0.1/32 cert\n\
                 hostnossl all old 127.0.0.1/32 trust\n\
                 host all postgres 127.0.0.1/32 trust\n";
    let server = PostgresServer::start_with_files(
        &["ssl=on", "ssl_cert_file=server.pem", "ssl_key_file=server.key", "ssl_ca_file=root.pem"],
        &[
            ("server.pem", &own.certificate),
            ("server.key", &own.key),
            ("root.pem", &pki.authority.certificate),
            ("pg_hba.conf", rules),
        ],
    );
    let plain = PostgresServer::shared();
    let users =
        "CREATE ROLE jobs LOGIN PASSWORD 's3cr3t-right'; CREATE ROLE known LOGIN; CREATE ROLE old LOGIN;
        GRANT ALL ON SCHEMA public TO jobs; GRANT jobs TO known";
    server.client().await.batch_execute(users).await.unwrap();

    let by_address = |user: &str, rest: &str| format!("{}{rest}", server.url_of(user));
    let on = |user: &str, rest: &str| by_address(user, rest).replace("127.0.0.1", "localhost");
    let jobs = "jobs:s3cr3t-right";
    let root = format!("?sslrootcert={}", pki.root);
    let shown = |own: &Paths| format!("{root}&sslcert={}&sslkey={}", own.certificate, own.key);
    check(&[
        (on("jobs:s3cr3t-wrong", &root), Refused, &["password authentication failed", "in the URL"]),
        (on("jobs", &root), Refused, &["asks for a password", "the URL has none"]),
        (on("nobody:s3cr3t", &root), Refused, &["user \"nobody\"", "check the user", "pg_hba.conf"]),
        (on(jobs, &format!("-gone{root}")), Misconfigured, &["postgres-gone", "create the database"]),
        (on(jobs, "?sslmode=disable"), Refused, &["no encryption", "sslmode=verify-full"]),
        (on("old:s3cr3t", ""), Refused, &["SSL encryption", "sslmode=disable"]),
        (
            on(jobs, &format!("?sslrootcert={}", pki.other_root)),
            Untrusted,
            &["has signed the store's certificate", "sslrootcert="],
        ),
        (on(jobs, "?sslmode=require"), Untrusted, &["has signed the store's", "sslrootcert="]),
        (
            on(jobs, &format!("?sslmode=verify-ca&sslrootcert={}", pki.other_root)),
            Untrusted,
            &["has signed the store's", "sslrootcert="],
        ),
        (by_address(jobs, &root), Untrusted, &["not for this host name, but for localhost:"]),
        (by_address(jobs, &format!("{root}&sslmode=require")), Untrusted, &["not for this host name"]),
        (on("known:s3cr3t", &root), Untrusted, &["client certificate", "sslcert=", "sslkey="]),
        (on("known:s3cr3t", &shown(&pki.stranger)), Untrusted, &["does not accept", "UnknownCA"]),
        (on("known:s3cr3t", &shown(&pki.client)), Untrusted, &["certificate authentication failed"]),
        (
            format!("{}{root}", plain.url_of("postgres:s3cr3t")),
            Untrusted,
            &["does not speak TLS", "ssl = on", "sslmode=disable"],
        ),
    ])
    .await;

    works(&on(jobs, &root)).await;
    works(&on(jobs, &format!("{root}&sslmode=verify-full&channel_binding=require"))).await;
    works(&by_address("postgres", &format!("{root}&sslmode=verify-ca"))).await;
    let known = pki.authority.client("known").put_into(&pki.folder, "known");
    works(&on("known", &shown(&known))).await;
}

#[tokio::test]
async fn error_for_a_user_without_permissions_names_the_remedy() {
    let server = PostgresServer::shared();
    server.client().await.batch_execute("CREATE ROLE limited LOGIN").await.unwrap();
    check(&[(
        format!("{}?schema=jobs", server.url_of("limited:s3cr3t")),
        Refused,
        &["permission denied", "cannot be created", "PostgresStore::setup_sql"],
    )])
    .await;
    works(&format!("{}?schema=jobs", server.url())).await;
}

#[tokio::test]
async fn unreachable_or_silent_server_is_named() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().map(|address| (address.port(), silent)).unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for scheme in ["redis", "rediss", "postgres"] {
        let url = |host: &str| format!("{scheme}://jobs:s3cr3t@{host}");
        check(&[
            (url(&format!("127.0.0.1:{closed}")), Unreachable, &["refused", "no server listens there"]),
            (url("no-such-host.invalid:1234"), Unreachable, &["no such host is known here", "its name"]),
            (url(&format!("127.0.0.1:{}", silent.0)), TimedOut, &["no connection", "check host and port"]),
        ])
        .await;
    }
}

#[tokio::test]
async fn a_start_with_unusable_certificates_names_the_file() {
    let pki = Pki::new();
    let broken = pki.folder.put("broken.pem", "-----BEGIN CERTIFICATE-----\nbroken\n");
    let empty = pki.folder.put("empty.pem", "");
    let (client, stranger) = (&pki.client, &pki.stranger);
    for (parameters, path, says) in [
        ("sslrootcert=/nowhere/root.pem".to_owned(), "/nowhere/root.pem", "cannot read"),
        (format!("sslrootcert={empty}"), &*empty, "holds no certificate"),
        (format!("sslrootcert={broken}"), &*broken, "not PEM"),
        (format!("sslrootcert={}", client.key), &*client.key, "holds no certificate"),
        (format!("sslcert={0}&sslkey={0}", client.certificate), &*client.certificate, "holds no private key"),
        (
            format!("sslcert={}&sslkey={}", client.certificate, stranger.key),
            &*stranger.key,
            "is not the key to",
        ),
    ] {
        for store in ["rediss://jobs:s3cr3t@127.0.0.1", "postgres://jobs:s3cr3t@127.0.0.1/shop"] {
            let job = Job::builder("import-products").run(async |_| ()).build().unwrap();
            let builder = jobs::builder().without_annotated().job(job).url(format!("{store}?{parameters}"));
            let error = builder.start_all().await.err().expect(&parameters);
            assert!(matches!(error, StartError::Config { .. }), "{error:?}");
            let said = error.to_string();
            assert!(said.starts_with("the builder's `url`: "), "{said}");
            assert!(
                said.contains(path) && said.contains(says) && !said.contains(SECRET),
                "{parameters}: {said}"
            );
        }
    }
}

#[test]
fn tls_settings_that_cannot_be_met_are_refused_and_not_ignored() {
    let pki = Pki::new();
    let root = format!("sslrootcert={}", pki.root);
    for (url, says) in [
        (format!("redis://:s3cr3t@host?{root}"), "write rediss://"),
        ("rediss://:s3cr3t@host#insecure".to_owned(), "always verified"),
        (format!("postgres://jobs:s3cr3t@host/shop?sslmode=disable&{root}"), "sslmode=verify-full"),
        (format!("postgres://jobs:s3cr3t@host/shop?sslmode=prefer&{root}"), "sslmode=verify-full"),
        ("postgres://jobs:s3cr3t@host/shop?sslmode=verify-ca".to_owned(), "needs sslrootcert="),
        (
            "postgres://jobs:s3cr3t@host/shop?sslmode=verify-ca&sslrootcert=system".to_owned(),
            "needs sslrootcert=",
        ),
        ("postgres://jobs:s3cr3t@host/shop?sslmode=allow".to_owned(), "expected one of disable, prefer"),
        ("postgres://jobs:s3cr3t@host/shop?sslnegotiation=direct".to_owned(), "leave it out"),
    ] {
        let error = open(&url, PATIENCE).err().expect(&url);
        assert_eq!(error.kind(), Misconfigured, "{error}");
        let said = format!("{error} {error:?}");
        assert!(said.contains(says) && !said.contains(SECRET), "{url}: {said}");
    }
}
