// SPDX-License-Identifier: Apache-2.0
//! `weir-switch links`: a client of the service.

use std::io::{self, Write};

use clap::Subcommand;
use serde::Serialize;
use tonic::transport::Channel;
use weir_links::v1;
use weir_links::v1::links_client::LinksClient;
use weir_ports::Reception;

use super::at::{At, ConnectError};
use super::convert;
use super::options::{self, LinkOptions, OptionError};
use super::port::PortSpec;

const SET_HELP: &str = "\
Options, separated by commas; those that are not given stay as they are:
";

fn set_help() -> String {
    format!("{SET_HELP}{}", options::HELP)
}

/// What to do with the links.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one, read once")]
pub enum LinksCommand {
    /// Print every port with its options and counters, as JSON.
    Get(At),
    /// Change the link of a port.
    #[command(after_help = set_help())]
    Set {
        /// Where the switch is.
        #[command(flatten)]
        at: At,
        /// The port's number.
        port: u32,
        /// What to change, for example `rate=10Mbit/s,delay=5ms`.
        options: String,
    },
    /// Open an interface as a new port.
    #[command(after_help = set_help())]
    Add {
        /// Where the switch is.
        #[command(flatten)]
        at: At,
        /// The port, as `--port` of the switch takes it: `3=veth3,rate=1Gbit/s`.
        port: PortSpec,
    },
    /// Close a port.
    Remove {
        /// Where the switch is.
        #[command(flatten)]
        at: At,
        /// The port's number.
        port: u32,
    },
}

/// The reason why the command failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The switch cannot be reached.
    #[error("{0}")]
    Connect(#[from] ConnectError),
    /// The switch refused.
    #[error("{}", .0.message())]
    Refused(#[from] Box<tonic::Status>),
    /// The options.
    #[error("{0}")]
    Options(#[from] OptionError),
    /// The port to change.
    #[error("there is no port {0}; `weir-switch links get` shows the ports")]
    NoPort(u32),
    /// A way of receiving that has to be prepared when the switch starts.
    #[error(
        "receive=xdp is for --port of a switch that starts: one that runs may load no XDP program"
    )]
    XdpLater,
    /// A switch of another version.
    #[error("port {port} has a link that this program does not understand: {reason}")]
    Link {
        /// The port.
        port: u32,
        /// The reason.
        reason: String,
    },
    /// Standard output.
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

impl From<tonic::Status> for ClientError {
    fn from(status: tonic::Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

#[derive(Serialize)]
struct Shown {
    port: u32,
    interface: String,
    up: bool,
    /// In the syntax of `links set`.
    options: String,
    queues: Vec<v1::QueueCounters>,
    link: v1::LinkCounters,
}

/// Runs the command.
///
/// # Errors
/// [`ClientError`], whose text says what to change.
pub async fn run(command: LinksCommand) -> Result<(), ClientError> {
    match command {
        LinksCommand::Get(at) => {
            let ports = ports(&mut connect(&at).await?).await?;
            let shown = ports.into_iter().map(show).collect::<Result<Vec<_>, _>>()?;
            let json = serde_json::to_string_pretty(&shown).map_err(io::Error::other)?;
            writeln!(io::stdout(), "{json}")?;
        }
        LinksCommand::Set { at, port, options } => {
            let change: LinkOptions = options::parse(&options)?;
            let mut client = connect(&at).await?;
            let found = ports(&mut client).await?;
            let found = found.into_iter().find(|found| found.number == port);
            let link = found.ok_or(ClientError::NoPort(port))?.link;
            let base = config(port, &link.unwrap_or_default())?;
            let link = Some(convert::link(&change.apply(base)?));
            client.set(v1::SetRequest { number: port, link }).await?;
        }
        LinksCommand::Add { port, .. } if port.reception == Reception::Xdp => {
            return Err(ClientError::XdpLater);
        }
        LinksCommand::Add { at, port } => {
            let request = v1::AddPortRequest {
                number: port.number,
                interface: port.interface,
                link: Some(convert::link(&port.config)),
            };
            connect(&at).await?.add_port(request).await?;
        }
        LinksCommand::Remove { at, port } => {
            let request = v1::RemovePortRequest { number: port };
            connect(&at).await?.remove_port(request).await?;
        }
    }
    Ok(())
}

async fn connect(at: &At) -> Result<LinksClient<Channel>, ClientError> {
    Ok(LinksClient::new(at.connect().await?))
}

async fn ports(client: &mut LinksClient<Channel>) -> Result<Vec<v1::Port>, ClientError> {
    Ok(client.get(v1::GetRequest {}).await?.into_inner().ports)
}

fn config(port: u32, link: &v1::Link) -> Result<weir_dataplane::PortConfig, ClientError> {
    convert::config(link).map_err(|failure| ClientError::Link {
        port,
        reason: failure.message,
    })
}

fn show(port: v1::Port) -> Result<Shown, ClientError> {
    let config = config(port.number, &port.link.unwrap_or_default())?;
    Ok(Shown {
        port: port.number,
        interface: port.interface,
        up: port.up,
        options: options::show(&config),
        queues: port.queues,
        link: port.counters.unwrap_or_default(),
    })
}
