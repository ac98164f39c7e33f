// SPDX-License-Identifier: Apache-2.0
//! A dataplane without a thread: its owner runs the commands.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;

use weir_ports::SendThreads;

use super::handle::{Command, Core, Handle};
use super::wait::Waker;
use crate::node::Node;

/// The state of a dataplane and its pending commands.
pub struct Inline {
    /// The switch and its time, which only the owner advances.
    pub core: Core,
    commands: mpsc::Receiver<Command>,
    handle: Handle,
}

impl Inline {
    /// A dataplane without interfaces at time 0.
    ///
    /// # Errors
    /// When the system cannot create an event descriptor.
    pub fn new(node: Node) -> io::Result<Self> {
        let (sender, commands) = mpsc::channel();
        let notifications_lost = Arc::new(AtomicU64::new(0));
        Ok(Self {
            core: Core {
                node,
                interfaces: Vec::new(),
                now_ns: 0,
                notifications_lost: Arc::clone(&notifications_lost),
            },
            commands,
            handle: Handle {
                commands: sender,
                waker: Arc::new(Waker::new()?),
                notifications_lost,
                send_threads: Arc::new(SendThreads::default()),
            },
        })
    }

    /// A handle; its calls wait until [`Inline::run`] is polled.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs commands for as long as it is polled.
    pub async fn run(&mut self) -> Infallible {
        loop {
            while let Ok(command) = self.commands.try_recv() {
                command(&mut self.core);
            }
            tokio::task::yield_now().await;
        }
    }
}
