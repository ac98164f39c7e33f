// SPDX-License-Identifier: Apache-2.0
//! A dataplane without a thread: whoever owns it runs its commands.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;

use weir_ports::SendThreads;

use super::handle::{Command, Core, Handle};
use super::wait::Waker;
use crate::node::Node;

/// What the dataplane thread would own, and the commands that wait for it.
pub struct Inline {
    /// The switch and its time, which passes only when the owner says so.
    pub core: Core,
    commands: mpsc::Receiver<Command>,
    handle: Handle,
}

impl Inline {
    /// A dataplane without interfaces at time 0.
    ///
    /// # Errors
    /// When the system gives no event descriptor.
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

    /// Its calls wait until [`Inline::run`] is polled.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs the commands that come, for as long as it is polled.
    pub async fn run(&mut self) -> Infallible {
        loop {
            while let Ok(command) = self.commands.try_recv() {
                command(&mut self.core);
            }
            tokio::task::yield_now().await;
        }
    }
}
