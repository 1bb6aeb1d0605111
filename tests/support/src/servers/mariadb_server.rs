//! A real MariaDB or MySQL server on a free loopback port, gone when the test is.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};

use crate::chosen;
use crate::folder::{ProgramFolder, TempFolder};
use crate::port::free_port;
use crate::postgres_server::{PATIENCE, as_server, give_to_server, watched};

/// A MariaDB server, or the MySQL server that is chosen, of the test's own: empty, in memory, killed on drop. What it acknowledged survives the kill.
pub struct MariadbServer {
    watched: Option<Child>,
    port: u16,
    folder: TempFolder,
    settings: Vec<String>,
}

/// Run at every start. The jobs are not an administrator: they have what a start by itself needs.
const USERS: &str = "CREATE DATABASE IF NOT EXISTS jobs;
CREATE USER IF NOT EXISTS admin@'%';
GRANT ALL ON *.* TO admin@'%' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS jobs@'%' IDENTIFIED BY 'sesame';
GRANT ALL ON jobs.* TO jobs@'%';
";

impl MariadbServer {
    /// A server with the defaults.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// A server with settings: `&["autocommit=0"]`.
    pub fn start_with(settings: &[&str]) -> Self {
        Self::start_in(TempFolder::in_memory(), settings)
    }

    /// A server whose data is on a disk.
    pub fn start_on_disk(settings: &[&str]) -> Self {
        Self::start_in(TempFolder::new(), settings)
    }

    fn start_in(folder: TempFolder, settings: &[&str]) -> Self {
        folder.put("users.sql", USERS);
        give_to_server(folder.path());
        run(as_server(&mut Command::new("env"))
            .args(["cp", "-r"])
            .arg(template())
            .arg(folder.path().join("data")));
        let settings = settings.iter().map(ToString::to_string).collect();
        let mut server = Self { watched: None, port: 0, folder, settings };
        // Another process may take the port between our looking and the server's start.
        for _ in 0..5 {
            server.port = free_port();
            if server.launch() {
                return server;
            }
        }
        panic!("mariadbd does not start; see {}/log", server.folder.path().display());
    }

    /// One server for all tests of a program, up to its end; keep them apart by namespaces.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<MariadbServer> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// Its URL, as a user that may only use its own database.
    pub fn url(&self) -> String {
        self.url_of("jobs:sesame")
    }

    /// Its URL, as another user: `name:password`.
    pub fn url_of(&self, user: &str) -> String {
        format!("mysql://{user}@127.0.0.1:{}/jobs", self.port)
    }

    /// Its URL by way of another port, from which messages can be read: without TLS, which some versions offer by default.
    pub fn url_through(&self, port: u16) -> String {
        format!("mysql://jobs:sesame@127.0.0.1:{port}/jobs?sslmode=disable")
    }

    /// Its port, the same over restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A plain client, as an administrator.
    pub async fn client(&self) -> Conn {
        Conn::new(Opts::from_url(&self.url_of("admin")).expect("a URL")).await.expect("a connection")
    }

    /// Runs statements as an administrator, also from a test without a runtime.
    pub fn run(&self, sql: &str) {
        let run = async {
            self.client().await.query_drop(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        };
        std::thread::scope(|scope| {
            let block_on =
                || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run);
            scope.spawn(block_on).join().expect("the statements run");
        });
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
        assert!(self.launch(), "mariadbd does not start again on port {}", self.port);
    }

    fn launch(&mut self) -> bool {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let mut watched = watched(&self.folder, "KILL")
            .arg(program())
            .args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve"])
            .args([format!("--port={}", self.port), format!("--datadir={}", path("data"))])
            .args([format!("--socket={}", path("socket")), format!("--pid-file={}", path("pid"))])
            .arg(format!("--init-file={}", path("users.sql")))
            .arg(format!("--tmpdir={}", self.folder.path().display()))
            .args(["--innodb-buffer-pool-size=16M", "--max-connections=300"])
            // Not every version has them: the protocol on a second, fixed port is MySQL's.
            .args(["--loose-innodb-log-file-size=4M", "--loose-mysqlx=OFF"])
            .args(chosen_place())
            .args(self.settings.iter().map(|setting| format!("--{setting}")))
            .spawn()
            .expect("sh");
        let answers = answers_soon(self.port, &mut watched);
        if answers {
            self.watched = Some(watched);
        } else {
            let _gone = watched.stdin.as_mut().map(|stdin| stdin.write_all(b"stay\n"));
            let _ended = watched.wait();
        }
        answers
    }
}

impl Drop for MariadbServer {
    fn drop(&mut self) {
        self.kill();
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
            .args(make_data())
            // Servers that share a folder remove each other's temporary tables.
            .arg(format!("--tmpdir={}", folder.path().display()))
            .arg(format!("--datadir={}", data.display())));
        (folder, data)
    });
    data
}

/// The command that makes the data of an empty server.
fn make_data() -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    if is_mariadb() {
        // A script, in the folder `bin` beside that of the server.
        let scripts = ["mariadb-install-db", "mysql_install_db"];
        let own = chosen_root().map(|root| scripts.map(|name| root.join("bin").join(name)));
        let own = own.and_then(|scripts| scripts.into_iter().find(|script| script.exists()));
        let script = own.unwrap_or_else(|| scripts[0].into());
        // The oldest ones make another database in any case.
        let skips = std::fs::read_to_string(&script).map_or(true, |text| text.contains("--skip-test-db"));
        words.push(script.into());
        words.extend(["--no-defaults", "--auth-root-authentication-method=normal"].map(OsString::from));
        words.push("--innodb-log-file-size=4M".into());
        words.extend(skips.then(|| "--skip-test-db".into()));
    } else {
        words.push(program().into());
        words.extend(["--no-defaults", "--initialize-insecure"].map(OsString::from));
        words.push("--loose-innodb-log-file-size=4M".into());
    }
    words.extend(chosen_place().into_iter().map(OsString::from));
    words
}

/// Options that keep a chosen server from what the system has of another one.
fn chosen_place() -> Vec<String> {
    let Some(root) = chosen_root() else { return Vec::new() };
    let mut options = vec![format!("--basedir={}", root.display())];
    // A folder that MySQL refuses to start without.
    options.extend((!is_mariadb()).then(|| "--secure-file-priv=NULL".to_owned()));
    options
}

/// The folder above that of a chosen server, with its messages and scripts.
fn chosen_root() -> Option<PathBuf> {
    Some(chosen::path(chosen::MARIADBD)?.parent()?.parent()?.to_owned())
}

/// Whether the server is MariaDB, not MySQL.
pub fn is_mariadb() -> bool {
    static IS_MARIADB: OnceLock<bool> = OnceLock::new();
    *IS_MARIADB.get_or_init(|| {
        let version = Command::new(program()).arg("--version").output();
        let version = version.unwrap_or_else(|error| {
            panic!("{}: {error}; run ./tests/run, or install it: {INSTALL}", program().display())
        });
        String::from_utf8_lossy(&version.stdout).contains("MariaDB")
    })
}

const INSTALL: &str = "apt-get install mariadb-server";

/// Debian keeps the server in a folder that is not in every user's path.
fn program() -> PathBuf {
    let installed = Path::new("/usr/sbin/mariadbd");
    let found = if installed.exists() { installed } else { Path::new("mariadbd") };
    chosen::path(chosen::MARIADBD).unwrap_or_else(|| found.to_owned())
}

fn run(command: &mut Command) {
    let output = command.output();
    let output = output
        .unwrap_or_else(|error| panic!("{command:?}: {error}; run ./tests/run, or install it: {INSTALL}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// It greets its clients once it is ready.
fn answers_soon(port: u16, shell: &mut Child) -> bool {
    let give_up = Instant::now() + PATIENCE;
    while Instant::now() < give_up && shell.try_wait().is_ok_and(|ended| ended.is_none()) {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            stream.set_read_timeout(Some(PATIENCE)).expect("a setting");
            if stream.read(&mut [0; 16]).is_ok_and(|length| length > 4) {
                return true;
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}
