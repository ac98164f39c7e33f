// SPDX-License-Identifier: Apache-2.0
//! A running collector, and its output.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;
use tempfile::TempDir;
use weir_report::{Outer, WeirReport};

/// A folder with the collector's files.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn output(&self) -> PathBuf {
        self.path("telemetry.parquet")
    }

    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(self.0.path())
            .expect("readable")
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("UTF-8")
            })
            .collect();
        names.sort();
        names
    }

    pub fn accounting(&self) -> Value {
        let text = std::fs::read_to_string(self.path("collector.json")).expect("accounting");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The counts of the accounts by key. Checks that each of the `sent` reports was received or dropped by the kernel.
    pub fn counts(&self, sent: u32) -> impl Fn(&str) -> u64 + use<> {
        let accounting = self.accounting();
        let count = move |key: &str| accounting[key].as_u64().expect("a number");
        let counted = count("received") + count("kernel_drops");
        assert_eq!(counted, u64::from(sent), "received and kernel_drops");
        count
    }

    /// The command line that writes into this folder.
    pub fn command(&self, listen: SocketAddr) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir-collector"));
        self.add_arguments(&mut command, listen);
        command
    }

    pub fn add_arguments(&self, command: &mut Command, listen: SocketAddr) {
        command.arg("--listen").arg(listen.to_string());
        self.add_files(command);
    }

    /// The files of this folder, for any source.
    pub fn add_files(&self, command: &mut Command) {
        command.arg("--output").arg(self.output());
        command.arg("--accounting").arg(self.path("collector.json"));
    }
}

/// Loopback, a free port.
pub fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

/// Longer than any test needs: a collector that does not exit fails its own test and stops no other.
const LONGEST: Duration = Duration::from_secs(120);

/// A collector that has said it is ready. Killed when dropped, or after `LONGEST`.
pub struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// Its address; for a collector on an interface, the sender's own address.
    pub address: SocketAddr,
    sender: UdpSocket,
    /// Dropping it tells the watchdog that the process was dropped.
    _watched: Sender<()>,
}

/// The output of a collector that has exited.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let mut running = Self::spawn(command);
        let line = running.line();
        let address = line
            .trim_end()
            .strip_prefix("weir-collector: listening on ");
        let address = address.and_then(|address| address.parse().ok());
        running.address = address.unwrap_or_else(|| panic!("{line:?}"));
        running.sender = UdpSocket::bind((running.address.ip(), 0)).expect("bound");
        running
    }

    /// A collector whose source is not a socket; `None` when it exited with an error that contains `refusal`.
    pub fn start_or_refused(command: &mut Command, refusal: &str) -> Option<Self> {
        let mut running = Self::spawn(command);
        if running.line().starts_with("weir-collector: listening on ") {
            return Some(running);
        }
        let ended = running.wait();
        assert!(ended.stderr.contains(refusal), "{ended:?}");
        None
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let sender = UdpSocket::bind(any_port()).expect("bound");
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
        let (watched, dropped) = channel();
        thread::spawn(move || {
            if dropped.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout) {
                let _ = kill(pid, Signal::SIGKILL);
            }
        });
        Self {
            _watched: watched,
            child,
            stdout,
            address: sender.local_addr().expect("bound"),
            sender,
        }
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line
    }

    /// Sends a datagram; loopback has delivered it when this returns.
    pub fn send(&self, payload: &[u8]) {
        self.sender.send_to(payload, self.address).expect("sent");
    }

    pub fn send_report(&self, report: &WeirReport<'_>) {
        let mut payload = Vec::new();
        report.encode(&mut payload).expect("valid");
        self.send(&payload);
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        kill(Pid::from_raw(pid), signal).expect("signalled");
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    pub fn wait(mut self) -> Ended {
        let mut ended = Ended {
            code: None,
            stdout: String::new(),
            stderr: String::new(),
        };
        self.stdout
            .read_to_string(&mut ended.stdout)
            .expect("UTF-8");
        self.child
            .stderr
            .take()
            .expect("piped")
            .read_to_string(&mut ended.stderr)
            .expect("UTF-8");
        ended.code = self.child.wait().expect("ended").code();
        ended
    }

    pub fn stop(self) -> Ended {
        self.signal(Signal::SIGTERM);
        self.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // So that a failed test leaves no process; after a clean exit there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    pub fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// Runs a command that is expected to exit by itself.
pub fn run_to_end(command: &mut Command) -> Ended {
    Running::spawn(command).wait()
}

/// The report in a frame to `dst_port`.
pub fn frame(report: &WeirReport<'_>, dst_port: u16) -> Vec<u8> {
    let outer = Outer {
        src_mac: [2, 0, 0, 0, 0, 1],
        dst_mac: [2, 0, 0, 0, 0, 2],
        src: Ipv4Addr::new(10, 0, 0, 254),
        dst: Ipv4Addr::new(10, 0, 0, 9),
        src_port: 1,
        dst_port,
    };
    let mut frame = Vec::new();
    outer.encode_frame(report, &mut frame).expect("valid");
    frame
}

/// A pcap with a frame per millisecond, of which at most `snap_bytes` are kept.
pub fn pcap(frames: &[Vec<u8>], snap_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(u32::to_le_bytes(word));
    }
    for (at, frame) in frames.iter().enumerate() {
        let kept = &frame[..frame.len().min(snap_bytes)];
        for word in [
            1 + at as u32 / 1000,
            at as u32 % 1000 * 1000,
            kept.len() as u32,
            frame.len() as u32,
        ] {
            bytes.extend(u32::to_le_bytes(word));
        }
        bytes.extend(kept);
    }
    bytes
}

/// The rows of a Parquet file.
pub struct Rows {
    pub names: Vec<String>,
    rows: Vec<Vec<Field>>,
}

impl Rows {
    pub fn num_rows(&self) -> usize {
        self.rows.len()
    }

    /// The values of a column, with their types.
    pub fn column(&self, name: &str) -> Vec<Field> {
        let at = self.names.iter().position(|other| other == name);
        let at = at.unwrap_or_else(|| panic!("no column {name}"));
        self.rows.iter().map(|row| row[at].clone()).collect()
    }
}

/// All rows of a file, and its key-value metadata.
pub fn read_parquet(path: &Path) -> (Rows, Vec<(String, String)>) {
    let reader = SerializedFileReader::new(File::open(path).expect("there")).expect("Parquet");
    let about = reader.metadata().file_metadata();
    let key_values = about.key_value_metadata().cloned().unwrap_or_default();
    let key_values = key_values
        .into_iter()
        .map(|pair| (pair.key, pair.value.unwrap_or_default()))
        .collect();
    let columns = about.schema_descr().columns().iter();
    let names = columns.map(|column| column.name().to_owned()).collect();
    let fields = |row: parquet::record::Row| row.into_columns().into_iter().map(|(_, field)| field);
    let rows = reader
        .get_row_iter(None)
        .expect("readable")
        .map(|row| fields(row.expect("readable")).collect())
        .collect();
    (Rows { names, rows }, key_values)
}
