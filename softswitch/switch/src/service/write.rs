// SPDX-License-Identifier: Apache-2.0
//! The `Write` RPC.

use tonic::Status;
use weir_p4runtime::p4::v1::WriteRequest;
use weir_p4runtime::p4::v1::write_request::Atomicity;

use super::shared::Shared;
use super::{role, rpc_status};
use weir_engine::node::failure::Failure;

/// Largest atomic batch: nothing is forwarded while it is carried out.
const MAX_ATOMIC_UPDATES: usize = 10_000;

/// Carries out a `Write`, with the checks in the specification's order.
pub async fn write(shared: &Shared, request: WriteRequest) -> Result<(), Status> {
    shared.check_device(request.device_id)?;
    let role = role::name(&request.role, request.role_id);
    shared.check_primary(&role, request.election_id)?;
    let atomicity = Atomicity::try_from(request.atomicity).map_err(|_| {
        Status::invalid_argument(format!(
            "atomicity {} does not exist; valid are CONTINUE_ON_ERROR (0), ROLLBACK_ON_ERROR (1) and \
             DATAPLANE_ATOMIC (2)",
            request.atomicity
        ))
    })?;
    if atomicity == Atomicity::DataplaneAtomic && request.updates.len() > MAX_ATOMIC_UPDATES {
        return Err(Status::unimplemented(format!(
            "DATAPLANE_ATOMIC: {} updates; this switch makes at most {MAX_ATOMIC_UPDATES} at once",
            request.updates.len()
        )));
    }
    let control = shared.control.write().await;
    // Another client may have become primary while this one waited for the lock.
    let access = shared.check_primary(&role, request.election_id)?;
    let target = control.target(&shared.engine);
    if !target.call(|node| node.pipeline().is_some()).await? {
        return Err(Failure::no_pipeline().into());
    }
    let updates = request
        .updates
        .into_iter()
        .map(|update| match &update.entity {
            Some(entity) if !access.covers(entity) => Err(role::forbidden(&role)),
            _ => Ok(update),
        });
    let outcomes = target.write(updates.collect(), atomicity).await?;
    rpc_status::of_batch(&outcomes, "updates")
}
