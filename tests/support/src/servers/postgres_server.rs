//! A real PostgreSQL server on a free loopback port, gone when the test is.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

use crate::chosen;
use crate::folder::{ProgramFolder, TempFolder};
use crate::port::free_port;

/// How long a healthy server may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A PostgreSQL server of the test's own: empty, without flushes to a disk, killed on drop.
pub struct PostgresServer {
    watched: Option<Child>,
    port: u16,
    folder: TempFolder,
    settings: Vec<String>,
}

impl PostgresServer {
    /// A server with the defaults.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// A server with settings: `&["default_transaction_isolation=serializable"]`.
    pub fn start_with(settings: &[&str]) -> Self {
        Self::start_with_files(settings, &[])
    }

    /// A server with settings, and with files in its folder: `&[("pg_hba.conf", rules)]`.
    pub fn start_with_files(settings: &[&str], files: &[(&str, &str)]) -> Self {
        let folder = TempFolder::in_memory();
        give_to_server(folder.path());
        let data = folder.path().join("data");
        run(as_server(&mut Command::new("env")).args(["cp", "-r"]).arg(template()).arg(data));
        // Only these users need a password; the second one's costs the client no arithmetic.
        let rules = folder.path().join("data/pg_hba.conf");
        let rest = std::fs::read_to_string(&rules).expect("rules");
        let guarded = "host all guarded 127.0.0.1/32 scram-sha-256\nhost all known 127.0.0.1/32 password\n";
        std::fs::write(&rules, format!("{guarded}{rest}")).expect("rules");
        for (name, content) in files {
            let path = folder.path().join("data").join(name);
            std::fs::write(&path, content).expect("a file");
            // A key that others may read is refused.
            run(Command::new("chmod").arg("600").arg(&path));
            give_to_server(&path);
        }
        let settings = settings.iter().map(ToString::to_string).collect();
        let mut server = Self { watched: None, port: 0, folder, settings };
        // Another process may take the port between our looking and the server's start.
        for _ in 0..5 {
            server.port = free_port();
            if server.launch() {
                return server;
            }
        }
        panic!("postgres does not start; see {}/log", server.folder.path().display());
    }

    /// One server for all tests of a program, up to its end; keep them apart by namespaces.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// Its URL, as the superuser.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Its URL, as another user.
    pub fn url_of(&self, user: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/postgres", self.port)
    }

    /// Its port, the same over restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its folder, for whoever changes its configuration before a restart.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A plain client, as another program would use it.
    pub async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.expect("a connection");
        tokio::spawn(async { drop(connection.await) });
        client
    }

    /// Ends the server without giving it time to write anything. What it had acknowledged stays.
    pub fn kill(&mut self) {
        if let Some(mut watched) = self.watched.take() {
            let stdin = watched.stdin.as_mut().expect("the shell's input");
            stdin.write_all(b"stay\n").expect("the shell listens");
            let _already_gone = watched.wait();
        }
    }

    /// Kills the server if it runs, and starts it again on the same port and folder.
    pub fn restart(&mut self) {
        self.kill();
        assert!(self.launch(), "postgres does not start again on port {}", self.port);
    }

    fn launch(&mut self) -> bool {
        let mut watched = watched(&self.folder, "QUIT")
            .arg(program("postgres"))
            .arg("-D")
            .arg(self.data())
            .args(["-p", &self.port.to_string(), "-h", "127.0.0.1", "-k", "", "-F"])
            // The second is not the default of old versions.
            .args(["-c", "max_connections=200", "-c", "password_encryption=scram-sha-256"])
            .args(self.settings.iter().flat_map(|setting| ["-c", setting]))
            .spawn()
            .expect("sh");
        let answers = answers_soon(self.port);
        if answers {
            self.watched = Some(watched);
        } else {
            let _gone = watched.stdin.as_mut().map(|stdin| stdin.write_all(b"stay\n"));
            let _ended = watched.wait();
        }
        answers
    }
}

/// A command that is run by a user who may, with its output in the folder. A shell ends it by the signal, and removes
/// the folder, when its input closes, so that not even a killed test leaves anything behind.
pub fn watched(folder: &TempFolder, signal: &str) -> Command {
    let script = r#"
        folder=$1; signal=$2; shift 2
        "$@" >"$folder/log" 2>&1 & server=$!
        read -r word
        kill -$signal $server; wait $server
        [ "$word" = stay ] || rm -rf "$folder""#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(folder.path()).args([signal, "env"]);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    as_server(&mut shell);
    shell
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// PostgreSQL refuses to run as root.
pub(crate) fn other_user() -> Option<&'static str> {
    static USER: OnceLock<Option<&str>> = OnceLock::new();
    *USER.get_or_init(|| {
        let id = |args: &[&str]| Command::new("id").args(args).output().expect("id");
        let root = String::from_utf8_lossy(&id(&["-u"]).stdout).trim() == "0";
        let named = id(&["-u", "postgres"]).status.success();
        root.then_some(if named { "postgres" } else { "nobody" })
    })
}

/// Gives a file, or a folder with all that is in it, to the user that servers run as.
pub(crate) fn give_to_server(path: &Path) {
    if let Some(user) = other_user() {
        run(Command::new("chown").arg("-R").arg(user).arg(path));
    }
}

pub(crate) fn as_server(command: &mut Command) -> &mut Command {
    match other_user() {
        Some(user) => command.args(["setpriv", &format!("--reuid={user}"), "--clear-groups"]),
        None => command,
    }
}

/// The data of an empty server, made once for all servers of a program.
fn template() -> &'static Path {
    static MADE: OnceLock<(ProgramFolder, PathBuf)> = OnceLock::new();
    let (_, data) = MADE.get_or_init(|| {
        let folder = ProgramFolder::new();
        give_to_server(folder.path());
        let data = folder.path().join("data");
        run(as_server(&mut Command::new("env"))
            .arg(program("initdb"))
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"])
            .args(["--wal-segsize=1", "-D"])
            .arg(&data));
        (folder, data)
    });
    data
}

/// Debian keeps the programs of each version in a folder of their own.
fn program(name: &str) -> PathBuf {
    let chosen = chosen::path(chosen::POSTGRES_BIN).map(|folder| folder.join(name));
    if let Some(program) = chosen.filter(|program| program.exists()) {
        return program;
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.exists());
    found.max().unwrap_or_else(|| PathBuf::from(name))
}

fn run(command: &mut Command) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| {
        panic!("{command:?}: {error}; run ./tests/run, or install it: apt-get install postgresql")
    });
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// It listens before it answers, so it is asked whether it takes part already.
pub fn answers_soon(port: u16) -> bool {
    let give_up = Instant::now() + PATIENCE;
    let port = port.to_string();
    while Instant::now() < give_up {
        let asked = Command::new(program("pg_isready")).args(["-q", "-h", "127.0.0.1", "-p", &port]).status();
        if asked.expect("pg_isready").success() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}
