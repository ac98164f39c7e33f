// SPDX-License-Identifier: Apache-2.0
//! The `SetForwardingPipelineConfig` and `GetForwardingPipelineConfig` RPCs.

use std::collections::HashSet;

use prost::Message;
use tonic::Status;
use weir_p4runtime::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use weir_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use weir_p4runtime::p4::v1::write_request::Atomicity;
use weir_p4runtime::p4::v1::{
    ForwardingPipelineConfig, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, SetForwardingPipelineConfigRequest,
};

use super::read::read_one;
use super::role::{self, Access};
use super::rpc_status;
use super::shared::Shared;
use super::target::{SavedConfig, Shadow, Target};
use weir_engine::node::failure::Failure;
use weir_engine::node::pipeline::Pipeline;
use weir_engine::node::{Node, state};

/// Carries out a `SetForwardingPipelineConfig`.
pub async fn set(
    shared: &Shared,
    request: SetForwardingPipelineConfigRequest,
) -> Result<(), Status> {
    shared.check_device(request.device_id)?;
    let role = role::name(&request.role, request.role_id);
    let access = shared.check_primary(&role, request.election_id)?;
    if access != Access::Full {
        return Err(Status::permission_denied(format!(
            "role {role} does not have full access, so it cannot set the pipeline"
        )));
    }
    let action = Action::try_from(request.action).unwrap_or(Action::Unspecified);
    if action == Action::Unspecified {
        return Err(Status::invalid_argument(format!(
            "action {} is none of VERIFY, VERIFY_AND_SAVE, VERIFY_AND_COMMIT, COMMIT, RECONCILE_AND_COMMIT",
            request.action
        )));
    }
    let mut control = shared.control.write().await;
    shared.check_primary(&role, request.election_id)?;
    if action == Action::Commit {
        if request.config.is_some() {
            return Err(Status::invalid_argument(
                "COMMIT commits the saved config and takes none",
            ));
        }
        let saved = control.saved.take();
        let saved = saved
            .ok_or_else(|| Status::not_found("no config is saved; VERIFY_AND_SAVE comes first"))?;
        return commit(shared, saved).await;
    }
    let Some(config) = request.config else {
        return Err(Status::invalid_argument("config is missing"));
    };
    if action == Action::ReconcileAndCommit && same_program(shared, &config).await? {
        control.saved = None;
        return Ok(());
    }
    let checked = check(shared, config).await?;
    match action {
        Action::VerifyAndSave => control.saved = Some(checked),
        Action::VerifyAndCommit => {
            control.saved = None;
            commit(shared, checked).await?;
        }
        Action::ReconcileAndCommit => {
            take_over(shared, &checked).await?;
            control.saved = None;
            commit(shared, checked).await?;
        }
        Action::Verify | Action::Commit | Action::Unspecified => {}
    }
    Ok(())
}

/// Verifies a configuration, on a separate thread because compiling takes long.
async fn check(shared: &Shared, config: ForwardingPipelineConfig) -> Result<SavedConfig, Status> {
    let node = shared
        .engine
        .call(|core| core.node.config().clone())
        .await?;
    let checked = tokio::task::spawn_blocking(move || -> Result<SavedConfig, Failure> {
        let (program, pipeline) = Pipeline::check(config)?;
        let mut node = Node::new(node);
        node.run(program.clone(), Some(pipeline.clone()), 0)?;
        Ok(SavedConfig {
            program,
            pipeline,
            shadow: Shadow::new(node),
        })
    });
    let checked = checked
        .await
        .map_err(|error| Status::internal(format!("the config could not be checked: {error}")))?;
    Ok(checked?)
}

/// Runs the program and replays the updates written since it was saved.
async fn commit(shared: &Shared, config: SavedConfig) -> Result<(), Status> {
    let SavedConfig {
        program,
        pipeline,
        shadow,
    } = config;
    let run = move |core: &mut weir_engine::engine::Core| {
        core.node.run(program, Some(pipeline), core.now_ns)
    };
    for outcome in shared.engine.call_each(run).await? {
        outcome?;
    }
    let updates = shadow.into_updates().into_iter().map(Ok).collect();
    let live = Target::Live(&shared.engine);
    let outcomes = live.write(updates, Atomicity::ContinueOnError).await?;
    rpc_status::of_batch(&outcomes, "updates that were replayed")
}

/// True when `config` is already running; then only its cookie changes and all state stays.
async fn same_program(shared: &Shared, config: &ForwardingPipelineConfig) -> Result<bool, Status> {
    let wanted = config.clone();
    let same = move |core: &mut weir_engine::engine::Core| {
        let same = core.node.pipeline().is_some_and(|running| {
            running.config.p4_device_config == wanted.p4_device_config
                && running.config.p4info == wanted.p4info
        });
        if same {
            core.node.set_cookie(wanted.cookie);
        }
        same
    };
    Ok(shared.engine.call(same).await?)
}

/// Writes the state of the running program to another one, which must accept all of it.
async fn take_over(shared: &Shared, config: &SavedConfig) -> Result<(), Status> {
    let live = Target::Live(&shared.engine);
    if !live.call(|node| node.pipeline().is_some()).await? {
        return Ok(());
    }
    let saved = Target::Saved(&config.shadow);
    let running = live
        .call(|node| node.pipeline().map(|p| p.config.clone()))
        .await?;
    let fresh = check(shared, running.unwrap_or_default()).await?;
    let fresh = Target::Saved(&fresh.shadow);
    for query in state::queries() {
        let (mut current, mut initial) = (Vec::new(), Vec::new());
        let mut room = shared.admission.room();
        read_one(&live, query.clone(), &mut current, &mut room).await??;
        // Entries that either program starts with were not written by a controller.
        read_one(&fresh, query.clone(), &mut initial, &mut room).await??;
        read_one(&saved, query, &mut initial, &mut room).await??;
        let initial: HashSet<Vec<u8>> = initial.iter().map(Message::encode_to_vec).collect();
        current.retain(|entity| !initial.contains(&entity.encode_to_vec()));
        let updates: Vec<_> = current
            .into_iter()
            .filter_map(state::update_of)
            .map(Ok)
            .collect();
        let outcomes = saved.write(updates, Atomicity::ContinueOnError).await?;
        if let Some(failure) = outcomes.into_iter().find_map(Result::err) {
            return Err(Status::invalid_argument(format!(
                "RECONCILE_AND_COMMIT: the new pipeline cannot take over the forwarding state: {failure}; \
                 VERIFY_AND_COMMIT replaces pipeline and state"
            )));
        }
    }
    Ok(())
}

/// Carries out a `GetForwardingPipelineConfig`.
pub async fn get(
    shared: &Shared,
    request: &GetForwardingPipelineConfigRequest,
) -> Result<GetForwardingPipelineConfigResponse, Status> {
    shared.check_device(request.device_id)?;
    let response_type = ResponseType::try_from(request.response_type).map_err(|_| {
        Status::invalid_argument(format!(
            "response_type {} is none of ALL, COOKIE_ONLY, P4INFO_AND_COOKIE, DEVICE_CONFIG_AND_COOKIE",
            request.response_type
        ))
    })?;
    let _control = shared.control.read().await;
    let config = shared
        .engine
        .call(|core| core.node.pipeline().map(|p| p.config.clone()))
        .await?;
    let config = config.map(|config| match response_type {
        ResponseType::All => config,
        ResponseType::CookieOnly => ForwardingPipelineConfig {
            cookie: config.cookie,
            ..ForwardingPipelineConfig::default()
        },
        ResponseType::P4infoAndCookie => ForwardingPipelineConfig {
            p4_device_config: Vec::new(),
            ..config
        },
        ResponseType::DeviceConfigAndCookie => ForwardingPipelineConfig {
            p4info: None,
            ..config
        },
    });
    Ok(GetForwardingPipelineConfigResponse { config })
}
