// SPDX-License-Identifier: Apache-2.0
//! The `Write` RPC.

use tonic::Status;
use weir_p4runtime::p4::v1::WriteRequest;
use weir_p4runtime::p4::v1::write_request::Atomicity;

use super::{Shared, check_role, rpc_status};

/// Updates that the dataplane thread carries out between two batches of frames: about 0.1 ms.
const UPDATES_PER_TURN: usize = 32;

/// Checks in the order that the specification gives, then the updates.
pub async fn write(shared: &Shared, request: WriteRequest) -> Result<(), Status> {
    shared.check_device(request.device_id)?;
    check_role(&request.role, request.role_id)?;
    shared.check_primary(request.election_id)?;
    match Atomicity::try_from(request.atomicity) {
        Ok(Atomicity::ContinueOnError) => {}
        Ok(other) => {
            let text = format!(
                "atomicity {} is not supported by this switch",
                other.as_str_name()
            );
            return Err(Status::unimplemented(text));
        }
        Err(_) => {
            let text = format!(
                "atomicity {} does not exist; valid is CONTINUE_ON_ERROR (0)",
                request.atomicity
            );
            return Err(Status::invalid_argument(text));
        }
    }
    let control = shared.control.write().await;
    // Another client may have become primary while this one waited for its turn.
    shared.check_primary(request.election_id)?;
    control.refuse_while_saved("Write")?;
    if !shared
        .engine
        .call(|core| core.node.pipeline().is_some())
        .await?
    {
        return Err(Status::failed_precondition(
            "no forwarding pipeline is set; SetForwardingPipelineConfig comes first",
        ));
    }
    let mut outcomes = Vec::with_capacity(request.updates.len());
    let mut updates = request.updates.into_iter();
    loop {
        let turn: Vec<_> = updates.by_ref().take(UPDATES_PER_TURN).collect();
        if turn.is_empty() {
            break;
        }
        let carry_out = move |core: &mut crate::engine::Core| {
            turn.iter().map(|u| core.node.write(u)).collect::<Vec<_>>()
        };
        outcomes.extend(shared.engine.call(carry_out).await?);
    }
    rpc_status::of_batch(&outcomes, "updates")
}
