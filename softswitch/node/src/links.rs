// SPDX-License-Identifier: Apache-2.0
//! Ports and their links; they can change while the switch runs, with or without a program.

use weir_dataplane::{LinkStats, Port, PortConfig, QUEUES, QueueStats, Switch};

use super::failure::Failure;
use super::{MAX_PORT, Node};

/// The reason why the ports of a switch with several forwarding threads stay as they are.
pub const FIXED_PORTS: &str =
    "a switch with several forwarding threads has the ports that it was started with";

/// The setting of a link that needs to see all frames that leave through it, if it has one: of a switch with several forwarding
/// threads each sees only its own.
pub fn needs_one_thread(link: &PortConfig) -> Option<&'static str> {
    let delay_only = PortConfig {
        delay_ns: link.delay_ns,
        ..PortConfig::default()
    };
    (*link != delay_only).then_some(
        "several forwarding threads send through a port, so it has no queue, line rate, jitter or loss; valid is a delay",
    )
}

impl Node {
    /// A port's link; None for a port that does not exist.
    pub fn link(&self, port: Port) -> Option<PortConfig> {
        self.config.ports.get(&port).copied()
    }

    /// Creates a port or changes its link.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when number or configuration are not valid.
    pub fn set_link(&mut self, port: Port, config: PortConfig, now_ns: u64) -> Result<(), Failure> {
        if let Some(problem) = config.problem() {
            return Err(Failure::invalid(format!("port {port}: {problem}")));
        }
        if self.config.one_of_several
            && let Some(problem) = needs_one_thread(&config)
        {
            return Err(Failure::invalid(format!("port {port}: {problem}")));
        }
        if let Some(switch) = &mut self.switch {
            switch.set_port(port, config, now_ns)?;
        }
        self.config.ports.insert(port, config);
        Ok(())
    }

    /// Removes a port with the frames queued there, which the dataplane counts.
    pub fn remove_port(&mut self, port: Port) {
        self.config.ports.remove(&port);
        if let Some(switch) = &mut self.switch {
            // An error means that the port does not exist, which is the wanted result.
            let _ = switch.remove_port(port);
        }
    }

    /// The reason why a port with this number cannot be added; None when it can.
    pub fn refuses_port(&self, port: Port) -> Option<String> {
        if self.config.one_of_several {
            Some(FIXED_PORTS.to_owned())
        } else if Some(port) == self.config.cpu_port {
            Some("it is the CPU port".to_owned())
        } else if port == self.config.switch.drop_port {
            Some("it is the drop port".to_owned())
        } else if port > MAX_PORT {
            Some(format!(
                "the number is out of range; 0 to {MAX_PORT} are valid"
            ))
        } else {
            None
        }
    }

    /// Totals of a port's queues, by priority; zeros before there is a program.
    pub fn queue_stats(&self, port: Port) -> [QueueStats; QUEUES] {
        let switch = self.switch.as_ref();
        switch
            .and_then(|switch: &Switch| switch.queue_stats(port))
            .unwrap_or_default()
    }

    /// Totals of a port's link; zeros before there is a program.
    pub fn link_stats(&self, port: Port) -> LinkStats {
        let switch = self.switch.as_ref();
        switch
            .and_then(|switch: &Switch| switch.link_stats(port))
            .unwrap_or_default()
    }
}
