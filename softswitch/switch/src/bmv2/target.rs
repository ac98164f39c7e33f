// SPDX-License-Identifier: Apache-2.0
//! The options after `--`: those of the target.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches, Parser};
use weir_dataplane::Port;
use weir_engine::node::MAX_PORT;

use super::Flavour;
use crate::tls::TlsFiles;

/// Options of `simple_switch_grpc` after `--`.
#[derive(Debug, Parser)]
#[command(name = "simple_switch_grpc … --", infer_long_args = true)]
struct GrpcTarget {
    /// Address of the P4Runtime service. Beyond the loopback only if given (bmv2's default is 0.0.0.0:9559).
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9559")]
    grpc_server_addr: String,

    /// Serve P4Runtime over TLS.
    #[arg(long)]
    grpc_server_ssl: bool,

    /// PEM file with the CA of the certificates of controllers.
    #[arg(long, value_name = "FILE")]
    grpc_server_cacert: Option<PathBuf>,

    /// PEM file with the switch's certificate.
    #[arg(long, value_name = "FILE")]
    grpc_server_cert: Option<PathBuf>,

    /// PEM file with the certificate's private key.
    #[arg(long, value_name = "FILE")]
    grpc_server_key: Option<PathBuf>,

    /// Require a certificate of each controller.
    #[arg(long)]
    grpc_server_with_client_auth: bool,

    /// Port number for packet-in and packet-out; without it there are none.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PORT)))]
    cpu_port: Option<Port>,

    /// Accepted without effect: a controller may always set another program.
    #[arg(long)]
    disable_swap: bool,

    /// Refused: there is no gRPC channel for frames.
    #[arg(long, value_name = "ADDRESS:PORT")]
    dp_grpc_server_addr: Option<String>,

    #[command(flatten)]
    common: Common,
}

/// Options of `simple_switch` after `--`.
#[derive(Debug, Parser)]
#[command(name = "simple_switch … --", infer_long_args = true)]
struct PlainTarget {
    /// Accepted without effect: a controller may always set another program.
    #[arg(long)]
    enable_swap: bool,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Port number that means "drop".
    #[arg(long, value_name = "N", default_value_t = 511, value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_PORT)))]
    drop_port: Port,

    /// Queues of a port. There are always eight, one for each priority.
    #[arg(long, value_name = "N")]
    priority_queues: Option<u64>,

    /// Accepted without effect: there is no such limit.
    #[arg(long, value_name = "N")]
    max_mc_groups: Option<u64>,

    /// Accepted without effect: there is no such limit.
    #[arg(long, value_name = "N")]
    max_l1_entries: Option<u64>,

    /// Accepted without effect: there is no such limit.
    #[arg(long, value_name = "N")]
    max_l2_entries: Option<u64>,

    /// Refused: externs in shared objects are not loaded.
    #[arg(long, value_name = "FILE,…")]
    load_modules: Option<String>,

    /// Words without an option; bmv2 takes no notice of them, and p4c's runner of PTF leaves it a shell's `&`.
    #[arg(hide = true)]
    words: Vec<String>,
}

/// P4Runtime's service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcOptions {
    /// Its address.
    pub address: SocketAddr,
    /// Its certificates; None without TLS.
    pub tls: Option<TlsFiles>,
}

/// The options after `--`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// P4Runtime's service; None for `simple_switch`.
    pub grpc: Option<GrpcOptions>,
    /// Port for packet-in and packet-out.
    pub cpu_port: Option<Port>,
    /// Port that means "drop".
    pub drop_port: Port,
    /// Queues of a port, as given.
    pub priority_queues: Option<u64>,
    /// Options and words without effect.
    pub without_effect: Vec<String>,
}

/// The end of reading the options.
#[derive(Debug)]
pub enum Parsed {
    /// They were understood.
    Target(Target),
    /// Print this and exit.
    Print(String),
}

/// Reads the words after `--`.
///
/// # Errors
/// What is wrong and what would be valid.
pub fn parse(flavour: Flavour, words: &[OsString]) -> Result<Parsed, String> {
    let command = match flavour {
        Flavour::Grpc => GrpcTarget::command(),
        Flavour::Plain => PlainTarget::command(),
    };
    let name = OsString::from(flavour.name());
    let matches = match command.try_get_matches_from(std::iter::once(&name).chain(words)) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => return Ok(Parsed::Print(error.to_string())),
        Err(error) => return Err(error.to_string()),
    };
    let target = match flavour {
        Flavour::Grpc => {
            let given = GrpcTarget::from_arg_matches(&matches).map_err(|e| e.to_string())?;
            if given.dp_grpc_server_addr.is_some() {
                return Err(
                    "--dp-grpc-server-addr is not supported: connect ports with -i, --packet-in or --use-files"
                        .to_owned(),
                );
            }
            let mut target = common(&given.common)?;
            target
                .without_effect
                .extend(given.disable_swap.then(|| "--disable-swap".to_owned()));
            target.grpc = Some(GrpcOptions {
                address: address(&given.grpc_server_addr)?,
                tls: tls(&given)?,
            });
            Target {
                cpu_port: given.cpu_port,
                ..target
            }
        }
        Flavour::Plain => {
            let given = PlainTarget::from_arg_matches(&matches).map_err(|e| e.to_string())?;
            let mut target = common(&given.common)?;
            target
                .without_effect
                .extend(given.enable_swap.then(|| "--enable-swap".to_owned()));
            target
        }
    };
    Ok(Parsed::Target(target))
}

fn common(given: &Common) -> Result<Target, String> {
    if given.load_modules.is_some() {
        return Err("--load-modules is not supported: externs are those of v1model".to_owned());
    }
    if given.priority_queues == Some(0) {
        return Err("--priority-queues 0: a port has at least one queue".to_owned());
    }
    let limits = [
        ("--max-mc-groups", given.max_mc_groups),
        ("--max-l1-entries", given.max_l1_entries),
        ("--max-l2-entries", given.max_l2_entries),
    ];
    let limits = limits.iter().filter(|(_, value)| value.is_some());
    let words = given.words.iter().map(|word| format!("{word:?} after --"));
    Ok(Target {
        grpc: None,
        cpu_port: None,
        drop_port: given.drop_port,
        priority_queues: given.priority_queues,
        without_effect: limits
            .map(|(name, _)| (*name).to_owned())
            .chain(words)
            .collect(),
    })
}

/// An address as gRPC takes it: a name or number of a host, and a port.
fn address(given: &str) -> Result<SocketAddr, String> {
    let wrong = |reason: &str| {
        format!(
            "--grpc-server-addr {given}: {reason}; valid are like 127.0.0.1:9559, 0.0.0.0:9559 and [::1]:9559"
        )
    };
    if given.starts_with("unix:") {
        return Err(wrong("Unix sockets are not supported"));
    }
    let plain = given.strip_prefix("dns:///").unwrap_or(given);
    let mut found = plain
        .to_socket_addrs()
        .map_err(|error| wrong(&error.to_string()))?;
    found.next().ok_or_else(|| wrong("the name has no address"))
}

fn tls(given: &GrpcTarget) -> Result<Option<TlsFiles>, String> {
    if !given.grpc_server_ssl {
        let files = [
            &given.grpc_server_cacert,
            &given.grpc_server_cert,
            &given.grpc_server_key,
        ];
        if files.iter().any(|file| file.is_some()) || given.grpc_server_with_client_auth {
            return Err(
                "certificates are given without --grpc-server-ssl; give it too, or none of them"
                    .to_owned(),
            );
        }
        return Ok(None);
    }
    let needed = |file: &Option<PathBuf>, name: &str| {
        file.clone()
            .ok_or(format!("--grpc-server-ssl needs {name} FILE"))
    };
    let (cert, key) = (
        needed(&given.grpc_server_cert, "--grpc-server-cert")?,
        needed(&given.grpc_server_key, "--grpc-server-key")?,
    );
    let ca = if given.grpc_server_with_client_auth {
        Some(needed(&given.grpc_server_cacert, "--grpc-server-cacert")?)
    } else {
        None
    };
    Ok(Some(TlsFiles { cert, key, ca }))
}
