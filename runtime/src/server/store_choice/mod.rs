//! The choice of the store: by the builder, by the environment, or by default.

use std::path::PathBuf;
use std::sync::Arc;

use singleton_jobs_policy::check_name;

use super::error::StartError;
use crate::store::Store;
use crate::store::file::FileStore;
use crate::store::memory::MemoryStore;

#[cfg(all(test, feature = "postgres", feature = "redis"))]
mod fuzz;

/// A store, and where its configuration came from.
pub(crate) struct OpenedStore {
    pub(crate) store: Arc<dyn Store>,
    /// A variable's name, or the builder's method.
    pub(crate) source: String,
}

/// The builder's settings of the store.
#[derive(Default)]
pub(crate) struct StoreChoice {
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) url: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) or_embedded: bool,
}

impl StoreChoice {
    /// Whether a store is configured, by the builder or by a variable.
    pub(crate) fn is_named(&self) -> bool {
        let outside = ["JOBS_URL", "REDIS_URL"].into_iter().find_map(variable);
        self.store.is_some() || self.url.is_some() || self.or_embedded || outside.is_some()
    }

    /// Opens the store: that of the builder, then of `JOBS_URL`, then of `REDIS_URL`, then the embedded one where that is
    /// safe. Nothing is sent to it yet.
    pub(crate) fn open(self) -> Result<OpenedStore, StartError> {
        self.open_in(cfg!(debug_assertions))
    }

    fn open_in(self, debug_build: bool) -> Result<OpenedStore, StartError> {
        let namespace = self.namespace()?;
        if let Some(store) = self.store {
            if let Some((_, source)) = namespace {
                let message = "an open store has its own namespace; set it there".to_owned();
                return Err(StartError::Config { source, message });
            }
            return Ok(OpenedStore { store, source: "the builder's `store`".to_owned() });
        }
        let namespace = namespace.map(|(namespace, _)| namespace);
        let named = self.url.map(|url| (url, "the builder's `url`".to_owned()));
        let named = named.or_else(|| variable("JOBS_URL")).or_else(|| variable("REDIS_URL"));
        if let Some((url, source)) = named {
            if let Some(warning) = warning(&url, &source).filter(|_| !debug_build) {
                tracing::warn!(target: "jobs", "{warning}");
            }
            return open_url(&url, namespace.as_deref(), source);
        }
        if self.or_embedded {
            return embedded(namespace.as_deref(), "the builder's `or_embedded`");
        }
        // With a forgotten variable every server would run every job.
        if !debug_build {
            return Err(StartError::NoStore);
        }
        let opened = embedded(namespace.as_deref(), "the default of a debug build")?;
        tracing::warn!(
            target: "jobs", store = %opened.store.location(),
            "no store is configured, so this debug build uses files on this machine; set JOBS_URL before deploying: \
             a release build does not start without it"
        );
        Ok(opened)
    }

    /// The namespace and where it was set.
    fn namespace(&self) -> Result<Option<(String, String)>, StartError> {
        let set = self.namespace.clone().map(|namespace| (namespace, "the builder's `namespace`".to_owned()));
        let Some((namespace, source)) = set.or_else(|| variable("JOBS_NAMESPACE")) else { return Ok(None) };
        let reserved = (namespace == "lock").then(|| "every lock's key begins with it".to_owned());
        let checked = check_name(&namespace, "shop").err().or(reserved);
        match checked {
            None => Ok(Some((namespace, source))),
            Some(why) => {
                let message = format!("invalid namespace \"{namespace}\": {why}");
                Err(StartError::Config { source, message })
            }
        }
    }
}

/// The reason to doubt a URL in production.
fn warning(url: &str, source: &str) -> Option<String> {
    if url.trim().starts_with("memory://") {
        return Some(format!(
            "{source} names a store in the memory of this process: every other process runs every job, too, and a restart \
             forgets all runs; use a store that all servers share"
        ));
    }
    (source == "REDIS_URL").then(|| {
        "the store is taken from REDIS_URL, which often names a cache: a cache may evict what it has stored, and jobs \
         would run twice; set JOBS_URL to name the store of the jobs explicitly"
            .to_owned()
    })
}

/// An environment variable and its name; an empty one is not set.
pub(crate) fn variable(name: &str) -> Option<(String, String)> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty()).map(|value| (value, name.to_owned()))
}

const SCHEMES: &str = "redis://host:6379, postgres://host/database, mysql://host/database, sqlite:///var/lib/shop/jobs.db, \
                       file:///var/lib/shop/jobs or memory://name";

/// Schemes of other databases, which a message may repeat.
const FOREIGN: [&str; 7] = ["amqp", "etcd", "http", "https", "memcached", "mongodb", "nats"];

/// Valkey speaks the protocol of Redis.
fn is_redis(scheme: &str) -> bool {
    let (server, deployment) = scheme.split_once('+').unwrap_or((scheme, ""));
    let known = ["redis", "rediss", "valkey", "valkeys"].contains(&server);
    scheme == "unix" || (known && ["", "unix", "sentinel", "cluster"].contains(&deployment))
}

fn open_url(url: &str, namespace: Option<&str>, source: String) -> Result<OpenedStore, StartError> {
    let url = url.trim();
    let config = |message: String| StartError::Config { source: source.clone(), message };
    // A URL that cannot be read may hold a password anywhere, so no message shows more of it than a well-known scheme.
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(config(format!("not a URL; expected {SCHEMES}")));
    };
    // No store was reached yet: the URL is at fault, and waiting does not help.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
    let malformed = |error: crate::store::StoreError| config(error.cause().to_string());
    let opened: Result<Arc<dyn Store>, _> = match scheme {
        #[cfg(feature = "redis")]
        _ if is_redis(scheme) => {
            let store = crate::store::redis::RedisStore::open(url, namespace).map_err(malformed)?;
            Ok(Arc::new(store))
        }
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            let store = crate::store::postgres::PostgresStore::open(url, namespace).map_err(malformed)?;
            Ok(Arc::new(store))
        }
        #[cfg(not(feature = "postgres"))]
        "postgres" | "postgresql" => {
            return Err(config(needs(scheme, "postgres")));
        }
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => {
            let store = crate::store::mysql::MysqlStore::open(url, namespace).map_err(malformed)?;
            Ok(Arc::new(store))
        }
        #[cfg(not(feature = "mysql"))]
        "mysql" | "mariadb" => return Err(config(needs(scheme, "mysql"))),
        #[cfg(not(feature = "redis"))]
        _ if is_redis(scheme) => return Err(config(needs(scheme, "redis"))),
        "file" if rest.starts_with('/') => {
            FileStore::open(PathBuf::from(rest), namespace).map(|store| Arc::new(store) as _)
        }
        "file" => {
            return Err(config("expected an absolute path, as in file:///var/lib/shop/jobs".to_owned()));
        }
        "sqlite" if cfg!(not(feature = "sqlite")) => return Err(config(needs(scheme, "sqlite"))),
        #[cfg(feature = "sqlite")]
        "sqlite" if rest.starts_with('/') && !rest.contains(['?', '#']) => {
            crate::store::sqlite::SqliteStore::open(PathBuf::from(rest), namespace)
                .map(|store| Arc::new(store) as _)
        }
        "sqlite" => {
            let expected =
                "expected an absolute path without parameters, as in sqlite:///var/lib/shop/jobs.db";
            return Err(config(expected.to_owned()));
        }
        "memory" => {
            let store = MemoryStore::named(rest);
            Ok(Arc::new(match namespace {
                Some(namespace) => store.with_namespace(namespace),
                None => store,
            }))
        }
        _ => {
            let shown = if FOREIGN.contains(&scheme) { format!(" {scheme}://") } else { String::new() };
            return Err(config(format!("unknown scheme{shown}; expected {SCHEMES}")));
        }
    };
    match opened {
        Ok(store) => Ok(OpenedStore { store, source }),
        Err(error) => Err(StartError::Store { source, error }),
    }
}

fn needs(scheme: &str, feature: &str) -> String {
    format!("{scheme}:// needs the feature `{feature}` of singleton-jobs")
}

fn embedded(namespace: Option<&str>, source: &str) -> Result<OpenedStore, StartError> {
    let source = source.to_owned();
    match FileStore::open(embedded_folder(), namespace) {
        Ok(store) => Ok(OpenedStore { store: Arc::new(store), source }),
        Err(error) => Err(StartError::Store { source, error }),
    }
}

/// One folder per user and program: the processes of a program share it, and no others.
fn embedded_folder() -> PathBuf {
    let home = || variable("HOME").map(|(home, _)| PathBuf::from(home).join(".local/state"));
    let state = variable("XDG_STATE_HOME").map(|(state, _)| PathBuf::from(state));
    let state = state.or_else(|| variable("LOCALAPPDATA").map(|(state, _)| PathBuf::from(state)));
    // Without the program's name, all such programs of a user share one folder.
    let program = std::env::current_exe().ok();
    let program = program
        .as_deref()
        .and_then(|path| path.file_stem())
        .map_or_else(|| "program".into(), ToOwned::to_owned);
    state.or_else(home).unwrap_or_else(std::env::temp_dir).join("singleton-jobs").join(program)
}

/// These rely on `JOBS_URL` and `REDIS_URL` not being set, as `tests/run` sees to.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_build_without_a_store_does_not_start() {
        let error = StoreChoice::default().open_in(false).err().expect("no store is configured");
        assert!(matches!(error, StartError::NoStore));
        let text = error.to_string();
        assert!(text.contains("JOBS_URL=redis://") && text.contains("or_embedded()"), "{text}");
    }

    #[test]
    fn release_build_uses_the_embedded_store_only_if_the_builder_allows_it() {
        let allowed = StoreChoice { or_embedded: true, ..StoreChoice::default() };
        assert!(allowed.open_in(false).unwrap().store.location().starts_with("file://"));
    }

    #[test]
    fn url_that_needs_a_feature_names_it() {
        for (url, feature, there) in [
            ("redis://host", "redis", cfg!(feature = "redis")),
            ("redis+sentinel://:secret@host/shop", "redis", cfg!(feature = "redis")),
            ("redis+cluster://:secret@host", "redis", cfg!(feature = "redis")),
            ("postgres://host", "postgres", cfg!(feature = "postgres")),
            ("mysql://user:secret@host/shop", "mysql", cfg!(feature = "mysql")),
            ("mariadb://user:secret@host/shop", "mysql", cfg!(feature = "mysql")),
        ] {
            match open_url(url, None, "the test".to_owned()) {
                Ok(opened) => {
                    let location = opened.store.location();
                    assert!(there && !location.contains("secret"), "{location}");
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(!there && text.contains(&format!("the feature `{feature}`")), "{text}");
                    assert!(!text.contains("secret"), "{text}");
                }
            }
        }
    }

    #[test]
    fn url_of_sqlite_has_an_absolute_path_and_nothing_else() {
        for rest in ["jobs.db", "", "./jobs.db", "host/jobs.db", "/jobs.db?mode=ro", "/jobs.db#1"] {
            let error = open_url(&format!("sqlite://{rest}"), None, "the test".to_owned());
            let text = error.err().expect("an error").to_string();
            let expected = if cfg!(feature = "sqlite") { "an absolute path" } else { "the feature `sqlite`" };
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn release_build_warns_of_a_store_in_memory_and_of_a_url_that_may_be_a_cache() {
        let memory = warning("memory://shop", "JOBS_URL").expect("a warning");
        assert!(memory.starts_with("JOBS_URL names a store in the memory"), "{memory}");
        assert!(warning(" memory://shop", "the builder's `url`").is_some());
        let cache = warning("redis://cache", "REDIS_URL").expect("a warning");
        assert!(cache.contains("REDIS_URL") && cache.contains("set JOBS_URL"), "{cache}");
        for (url, source) in [("redis://jobs", "JOBS_URL"), ("file:///var/lib/jobs", "the builder's `url`")] {
            assert_eq!(warning(url, source), None);
        }
    }

    #[test]
    fn debug_build_without_a_store_uses_files() {
        assert!(StoreChoice::default().open_in(true).unwrap().store.location().starts_with("file://"));
    }
}
