//! A real Redis server on a free loopback port, gone when the test is.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use crate::chosen;
use crate::folder::TempFolder;
use crate::port::free_port;

/// How long a healthy server may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A Redis server of the test's own: empty, without persistence unless asked for, killed on drop.
pub struct RedisServer {
    watched: Option<Child>,
    port: u16,
    tls_port: Option<u16>,
    folder: TempFolder,
    options: Vec<String>,
}

impl RedisServer {
    /// A server with the defaults.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// A server with options as on its command line: `&["--maxmemory", "4mb"]`.
    pub fn start_with(options: &[&str]) -> Self {
        Self::start_on(false, options)
    }

    /// A server that speaks TLS on a second port, with the certificates that the options name.
    pub fn start_encrypted(options: &[&str]) -> Self {
        Self::start_on(true, options)
    }

    fn start_on(encrypted: bool, options: &[&str]) -> Self {
        // A server that flushes every write must not wait for a disk that others keep busy.
        let folder = TempFolder::in_memory();
        let options = options.iter().map(ToString::to_string).collect();
        let mut server = Self { watched: None, port: 0, tls_port: None, folder, options };
        // Another process may take the port between our looking and the server's start.
        for _ in 0..5 {
            server.port = free_port();
            server.tls_port = encrypted.then(free_port);
            if server.launch() {
                return server;
            }
        }
        panic!("redis-server does not start: run `redis-server {}` to see why", server.options.join(" "));
    }

    /// One server for all tests of a program that run at the same time; keep them apart by namespaces.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<RedisServer>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start());
            *shared = Arc::downgrade(&server);
            server
        })
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Its port, the same over restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it speaks TLS.
    pub fn tls_port(&self) -> u16 {
        self.tls_port.expect("a server that was started encrypted")
    }

    /// A plain client, as another program would use it.
    pub async fn client(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.url()).expect("a valid URL");
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        connection.expect("a connection to the test's own server")
    }

    /// Ends the server as a power cut would. What it had persisted stays for [`restart`](Self::restart).
    pub fn kill(&mut self) {
        if let Some(watched) = self.watched.take() {
            end(watched);
        }
    }

    /// Kills the server if it runs, and starts it again on the same port and folder.
    pub fn restart(&mut self) {
        self.kill();
        assert!(self.launch(), "redis-server does not start again on port {}", self.port);
    }

    fn launch(&mut self) -> bool {
        let folder = self.folder.path().display().to_string();
        let port = self.port.to_string();
        let mut arguments = vec!["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"];
        arguments.extend(["--loglevel", "warning", "--dir", &folder]);
        let tls_port = self.tls_port.map(|port| port.to_string());
        arguments.extend(tls_port.iter().flat_map(|port| ["--tls-port", port.as_str()]));
        arguments.extend(self.options.iter().map(String::as_str));
        // It listens here after its port, which another server may have taken, and answer on.
        let given = self.options.iter().skip_while(|option| *option != "--unixsocket").nth(1);
        let socket = given.map_or_else(|| self.folder.path().join("own.sock"), PathBuf::from);
        let path = socket.display().to_string();
        arguments.extend(["--unixsocket", &path]);
        let _of_an_earlier_start = std::fs::remove_file(&socket);
        let watched = launch(&arguments, self.port, self.folder.path());
        self.watched = watched.and_then(|watched| {
            if listens_soon(&socket) {
                return Some(watched);
            }
            end(watched);
            None
        });
        self.watched.is_some()
    }
}

/// Starts the server with these arguments, and waits until it answers. It ends when its input closes, and its
/// folder vanishes, so that not even a killed test leaves anything behind.
pub fn launch(arguments: &[&str], port: u16, folder: &Path) -> Option<Child> {
    const WATCH: &str = r#""$SERVER" "$@" & server=$!
        read -r _ || abandoned=1
        kill -9 $server; wait $server
        [ -z "$abandoned" ] || rm -rf "$FOLDER""#;
    require_binary();
    let watched = Command::new("sh")
        .args(["-c", WATCH, "sh"])
        .args(arguments)
        .env("SERVER", program())
        .env("FOLDER", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh");
    if answers_soon(port) {
        return Some(watched);
    }
    end(watched);
    None
}

/// Kills a server, and leaves its folder alone.
pub fn end(mut watched: Child) {
    if let Some(mut orders) = watched.stdin.take() {
        let _already_gone = orders.write_all(b"end\n");
    }
    let _ended = watched.wait();
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The installed one, unless another is chosen.
fn program() -> PathBuf {
    chosen::path(chosen::REDIS_SERVER).unwrap_or_else(|| PathBuf::from("redis-server"))
}

fn require_binary() {
    let found = Command::new(program()).arg("--version").stdout(Stdio::null()).status();
    assert!(
        found.is_ok_and(|status| status.success()),
        "{} not found: run ./tests/run, or install it: apt-get install redis-server",
        program().display()
    );
}

fn listens_soon(socket: &Path) -> bool {
    let give_up = Instant::now() + Duration::from_secs(5);
    while !socket.exists() && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(5));
    }
    socket.exists()
}

fn answers_soon(port: u16) -> bool {
    let give_up = Instant::now() + PATIENCE;
    while Instant::now() < give_up {
        if answer(port).is_ok_and(|answer| answer.starts_with("+PONG") || answer.starts_with("-NOAUTH")) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

fn answer(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 64];
    let length = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}
