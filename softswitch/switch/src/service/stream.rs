// SPDX-License-Identifier: Apache-2.0
//! The `StreamChannel` RPC: arbitration, packets, digests.

use std::sync::Arc;

use prost::Message;
use tokio::sync::{Notify, mpsc};
use tokio_stream::StreamExt;
use tonic::{Code, Status, Streaming};
use tracing::info;
use weir_p4runtime::p4::v1::stream_message_request::Update as Request;
use weir_p4runtime::p4::v1::stream_message_response::Update as Response;
use weir_p4runtime::p4::v1::{
    DigestListAck, DigestListAckError, MasterArbitrationUpdate, PacketOut, PacketOutError,
    StreamError, StreamMessageRequest, StreamMessageResponse, StreamOtherError, stream_error,
};

use super::arbitration::{self, ClientId};
use super::outbox::{Outbox, Outgoing};
use super::role::Access;
use super::shared::{ClientStream, Clients, Shared};
use weir_engine::node::Notification;
use weir_engine::node::failure::Failure;

/// Longest message that an error repeats; the specification leaves that open.
const MAX_REPEATED_BYTES: usize = 32 << 10;

/// Opens a controller's stream.
pub fn open(shared: Arc<Shared>, requests: Streaming<StreamMessageRequest>) -> Outgoing {
    let stalled = Arc::new(Notify::new());
    let (client, sender, receiver) = {
        let mut clients = shared.clients();
        let (sender, receiver) = Outbox::open(&clients.queued_bytes);
        clients.next_id += 1;
        let client = clients.next_id;
        let stream = ClientStream {
            messages: sender.clone(),
            stalled: Arc::clone(&stalled),
        };
        clients.streams.insert(client, stream);
        (client, sender, receiver)
    };
    tokio::spawn(async move {
        // The stream ends when the client closes it, when it breaks, or with the status of a refused arbitration.
        let ended = tokio::select! {
            ended = receive(&shared, client, requests) => ended,
            () = sender.closed() => Ok(()),
            () = stalled.notified() => Err(Status::resource_exhausted("the controller takes no messages")),
        };
        {
            let mut clients = shared.clients();
            clients.streams.remove(&client);
            let notifications = clients.arbitration.disconnect(client);
            clients.send_all(notifications);
        }
        if let Err(status) = ended {
            info!(
                "controller {client}: its stream was ended: {}",
                status.message()
            );
            sender.end(status);
        }
    });
    receiver
}

async fn receive(
    shared: &Shared,
    client: ClientId,
    mut requests: Streaming<StreamMessageRequest>,
) -> Result<(), Status> {
    while let Some(request) = requests.next().await {
        let request = match request {
            Ok(request) => request,
            // Only these two come from admission and are reported; otherwise the connection is broken.
            Err(status) => match status.code() {
                Code::ResourceExhausted | Code::DeadlineExceeded => return Err(status),
                _ => return Ok(()),
            },
        };
        match request.update {
            Some(Request::Arbitration(update)) => arbitrate(shared, client, &update).await?,
            Some(Request::Packet(packet)) => packet_out(shared, client, packet).await?,
            Some(Request::DigestAck(ack)) => digest_ack(shared, client, ack).await?,
            Some(Request::Other(other)) => {
                let failure = Failure::unimplemented(format!("stream message {}", other.type_url));
                let details = stream_error::Details::Other(StreamOtherError {
                    other: repeated(other),
                });
                shared.clients().send_error(client, failure, details);
            }
            None => {
                let failure = Failure::invalid("the stream message has no update");
                let details = stream_error::Details::Other(StreamOtherError::default());
                shared.clients().send_error(client, failure, details);
            }
        }
    }
    Ok(())
}

async fn arbitrate(
    shared: &Shared,
    client: ClientId,
    update: &MasterArbitrationUpdate,
) -> Result<(), Status> {
    let for_primary = {
        // Notifications are sent under the lock under which they were made, so that they come in the order of the changes.
        let mut clients = shared.clients();
        let notifications = clients.arbitration.update(client, update)?;
        let is_primary = clients.arbitration.access_as_primary(client).is_some();
        let to_primary = |n: &arbitration::Notification| is_primary && n.0 == client;
        let (for_primary, for_others): (Vec<_>, Vec<_>) =
            notifications.into_iter().partition(to_primary);
        clients.send_all(for_others);
        for_primary
    };
    if !for_primary.is_empty() {
        // The new primary is notified only after the previous primary's writes are complete.
        drop(shared.control.write().await);
        let mut clients = shared.clients();
        // Who was overtaken meanwhile has been told so already.
        if clients.arbitration.access_as_primary(client).is_some() {
            clients.send_all(for_primary);
        }
    }
    Ok(())
}

async fn packet_out(shared: &Shared, client: ClientId, packet: PacketOut) -> Result<(), Status> {
    let mut outcome =
        shared
            .clients()
            .refuse_unless_primary(client, "packet-outs", Access::sends_packets);
    if outcome.is_ok() {
        let sent = packet.clone();
        outcome = shared
            .engine
            .call(move |core| core.node.packet_out(&sent, core.now_ns))
            .await?;
    }
    if let Err(failure) = outcome {
        let details = stream_error::Details::PacketOut(PacketOutError {
            packet_out: repeated(packet),
        });
        shared.clients().send_error(client, failure, details);
    }
    Ok(())
}

async fn digest_ack(shared: &Shared, client: ClientId, ack: DigestListAck) -> Result<(), Status> {
    let mut outcome =
        shared
            .clients()
            .refuse_unless_primary(client, "digest acknowledgements", |access| {
                access.acknowledges(ack.digest_id)
            });
    if outcome.is_ok() {
        let given = ack;
        outcome = shared
            .engine
            .call(move |core| core.node.digest_ack(&given))
            .await?;
    }
    if let Err(failure) = outcome {
        let details = stream_error::Details::DigestListAck(DigestListAckError {
            digest_list_ack: Some(ack),
        });
        shared.clients().send_error(client, failure, details);
    }
    Ok(())
}

/// A message to repeat in an error, unless it is long.
fn repeated<M: Message>(message: M) -> Option<M> {
    (message.encoded_len() <= MAX_REPEATED_BYTES).then_some(message)
}

/// Delivers the dataplane's notifications to the streams of the primaries; ends with the dataplane.
pub async fn deliver(shared: Arc<Shared>, mut notifications: mpsc::Receiver<Notification>) {
    while let Some(notification) = notifications.recv().await {
        if !shared.clients().offer_to_primaries(notification) {
            shared.engine.count_lost_notification();
        }
    }
}

impl Clients {
    /// Offers a notification to every primary whose role receives it; false when there is none, or when one has stalled.
    fn offer_to_primaries(&self, notification: Notification) -> bool {
        let primaries = self.arbitration.primaries();
        let receivers: Vec<ClientId> = primaries
            .filter(|(_, access)| access.receives(&notification))
            .map(|(client, _)| client)
            .collect();
        let message = StreamMessageResponse::from(notification);
        let mut delivered = !receivers.is_empty();
        for client in receivers {
            let stream = self.streams.get(&client);
            delivered &= stream.is_some_and(|stream| stream.messages.offer(message.clone()));
        }
        delivered
    }

    fn refuse_unless_primary(
        &self,
        client: ClientId,
        what: &str,
        may: impl Fn(&Access) -> bool,
    ) -> Result<(), Failure> {
        let message = match self.arbitration.access_as_primary(client) {
            Some(access) if may(access) => return Ok(()),
            Some(_) => format!("the role.config of this controller's role excludes {what}"),
            None => format!("only the primary controller sends {what}"),
        };
        Err(Failure::new(Code::PermissionDenied, message))
    }

    fn send_all(&mut self, notifications: Vec<arbitration::Notification>) {
        for (client, update) in notifications {
            let message = StreamMessageResponse {
                update: Some(Response::Arbitration(update)),
            };
            let Some(stream) = self.streams.get(&client) else {
                continue;
            };
            if !stream.messages.send(message) {
                // A controller that missed an arbitration message must not believe that its role is unchanged.
                stream.stalled.notify_one();
            }
        }
    }

    fn send_error(&self, client: ClientId, failure: Failure, details: stream_error::Details) {
        let error = StreamError {
            canonical_code: failure.code as i32,
            message: failure.message,
            details: Some(details),
            ..StreamError::default()
        };
        if let Some(stream) = self.streams.get(&client) {
            stream.messages.offer(StreamMessageResponse {
                update: Some(Response::Error(error)),
            });
        }
    }
}
