// SPDX-License-Identifier: Apache-2.0
//! The `SetForwardingPipelineConfig` and `GetForwardingPipelineConfig` RPCs.

use tonic::Status;
use weir_dataplane::Program;
use weir_p4runtime::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use weir_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use weir_p4runtime::p4::v1::{
    ForwardingPipelineConfig, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, SetForwardingPipelineConfigRequest,
};

use super::{Control, Shared, check_role};
use crate::node::pipeline::Pipeline;

/// A configuration that was verified and saved.
pub struct SavedConfig {
    program: Program,
    pipeline: Pipeline,
}

impl Control {
    /// Between `VERIFY_AND_SAVE` and `COMMIT` the specification wants requests to refer to the saved configuration and
    /// to be replayed at the commit; this switch does not.
    pub fn refuse_while_saved(&self, rpc: &str) -> Result<(), Status> {
        if self.saved.is_none() {
            return Ok(());
        }
        Err(Status::unimplemented(format!(
            "{rpc} between VERIFY_AND_SAVE and COMMIT is not supported by this switch; COMMIT the saved pipeline first"
        )))
    }
}

/// Carries out a `SetForwardingPipelineConfig`.
pub async fn set(
    shared: &Shared,
    request: SetForwardingPipelineConfigRequest,
) -> Result<(), Status> {
    shared.check_device(request.device_id)?;
    check_role(&request.role, request.role_id)?;
    shared.check_primary(request.election_id)?;
    let action = Action::try_from(request.action).unwrap_or(Action::Unspecified);
    if action == Action::Unspecified {
        return Err(Status::invalid_argument(format!(
            "action {} is none of VERIFY, VERIFY_AND_SAVE, VERIFY_AND_COMMIT, COMMIT, RECONCILE_AND_COMMIT",
            request.action
        )));
    }
    let mut control = shared.control.write().await;
    shared.check_primary(request.election_id)?;
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
    if action == Action::ReconcileAndCommit && keep_state(shared, &config).await? {
        control.saved = None;
        return Ok(());
    }
    let checked = check(config).await?;
    match action {
        Action::VerifyAndSave => control.saved = Some(checked),
        Action::VerifyAndCommit | Action::ReconcileAndCommit => {
            control.saved = None;
            commit(shared, checked).await?;
        }
        Action::Verify | Action::Commit | Action::Unspecified => {}
    }
    Ok(())
}

/// Compiling takes its time, so not on a thread that serves others.
async fn check(config: ForwardingPipelineConfig) -> Result<SavedConfig, Status> {
    let checked = tokio::task::spawn_blocking(move || Pipeline::check(config)).await;
    let (program, pipeline) = checked
        .map_err(|error| Status::internal(format!("the config could not be checked: {error}")))??;
    Ok(SavedConfig { program, pipeline })
}

async fn commit(shared: &Shared, config: SavedConfig) -> Result<(), Status> {
    let SavedConfig { program, pipeline } = config;
    let run =
        move |core: &mut crate::engine::Core| core.node.run(program, Some(pipeline), core.now_ns);
    Ok(shared.engine.call(run).await??)
}

/// `RECONCILE_AND_COMMIT`: true when the program that runs is the one that is wanted, whose state then stays; false
/// when none runs, so that there is no state to keep.
async fn keep_state(shared: &Shared, config: &ForwardingPipelineConfig) -> Result<bool, Status> {
    let wanted = config.clone();
    let kept = move |core: &mut crate::engine::Core| {
        let running = core.node.pipeline()?;
        let same = running.config.p4_device_config == wanted.p4_device_config
            && running.config.p4info == wanted.p4info;
        if same {
            core.node.set_cookie(wanted.cookie);
        }
        Some(same)
    };
    match shared.engine.call(kept).await? {
        Some(true) => Ok(true),
        None => Ok(false),
        Some(false) => Err(Status::invalid_argument(
            "RECONCILE_AND_COMMIT: the forwarding state cannot be preserved for another program; VERIFY_AND_COMMIT \
             replaces program and state",
        )),
    }
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
