// SPDX-License-Identifier: Apache-2.0
//! From calls to answers: the methods of the three services by name, and how each runs.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_dataplane::Program;
use weir_engine::engine::{Core, Stopped};
use weir_ports::{Interface, OpenError};

use crate::args::{Args, fields, text};
use crate::refusal::Refusal;
use crate::state::{Context, State};
use crate::wire::{Kind, Message, Struct, Value};
use crate::{arrays, management, multicast, profiles, queues, tables, value_sets};

/// The result of a method, None for `void`.
pub type Answer = Result<Option<Value>, Refusal>;

/// Access to the switch from the thread of a connection.
pub trait Backend {
    /// Runs an operation between two batches of frames.
    ///
    /// # Errors
    /// [`Stopped`] when the switch is shutting down.
    fn run<R: Send + 'static>(
        &mut self,
        operation: impl FnOnce(&mut State, &mut Core) -> R + Send + 'static,
    ) -> Result<R, Stopped>;

    /// Opens the interface of a new port.
    ///
    /// # Errors
    /// As [`Interface::open`].
    fn open(&mut self, number: u32, interface: &str) -> Result<Interface, OpenError>;
}

/// What the services say about the switch itself.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// The device's number.
    pub device_id: u64,
    /// The port of the services.
    pub thrift_port: u16,
    /// Address of the nanomsg socket that publishes notifications; empty if none does.
    pub notifications: Arc<str>,
}

type OnSwitch = fn(&mut Context<'_>, Args<'_>) -> Answer;
type OnSource = fn(&[u8], Args<'_>) -> Answer;

/// How a method runs.
#[derive(Clone, Copy)]
enum Method {
    /// On the dataplane thread, at once.
    Switch(OnSwitch),
    /// On the thread of the connection, with the program's JSON.
    Source(OnSource),
    /// On the dataplane thread, some entries at a time.
    GetEntries,
    LoadConfig,
    AddPort,
    RemovePort,
    Info,
    Epoch,
}

/// Service `standard`.
const STANDARD: &[(&str, Method)] = &[
    ("bm_mt_get_num_entries", Method::Switch(tables::num_entries)),
    ("bm_mt_clear_entries", Method::Switch(tables::clear)),
    ("bm_mt_add_entry", Method::Switch(tables::add)),
    (
        "bm_mt_set_default_action",
        Method::Switch(tables::set_default),
    ),
    (
        "bm_mt_reset_default_entry",
        Method::Switch(tables::reset_default),
    ),
    ("bm_mt_delete_entry", Method::Switch(tables::delete)),
    ("bm_mt_modify_entry", Method::Switch(tables::modify)),
    ("bm_mt_set_entry_ttl", Method::Switch(tables::set_timeout)),
    (
        "bm_mt_indirect_set_entry_ttl",
        Method::Switch(tables::set_timeout),
    ),
    (
        "bm_mt_act_prof_add_member",
        Method::Switch(profiles::add_member),
    ),
    (
        "bm_mt_act_prof_delete_member",
        Method::Switch(profiles::delete_member),
    ),
    (
        "bm_mt_act_prof_modify_member",
        Method::Switch(profiles::modify_member),
    ),
    (
        "bm_mt_act_prof_create_group",
        Method::Switch(profiles::create_group),
    ),
    (
        "bm_mt_act_prof_delete_group",
        Method::Switch(profiles::delete_group),
    ),
    (
        "bm_mt_act_prof_add_member_to_group",
        Method::Switch(profiles::add_member_to_group),
    ),
    (
        "bm_mt_act_prof_remove_member_from_group",
        Method::Switch(profiles::remove_member_from_group),
    ),
    (
        "bm_mt_act_prof_get_members",
        Method::Switch(profiles::get_members),
    ),
    (
        "bm_mt_act_prof_get_member",
        Method::Switch(profiles::get_member),
    ),
    (
        "bm_mt_act_prof_get_groups",
        Method::Switch(profiles::get_groups),
    ),
    (
        "bm_mt_act_prof_get_group",
        Method::Switch(profiles::get_group),
    ),
    (
        "bm_mt_indirect_add_entry",
        Method::Switch(tables::add_indirect),
    ),
    (
        "bm_mt_indirect_modify_entry",
        Method::Switch(tables::modify_indirect),
    ),
    (
        "bm_mt_indirect_delete_entry",
        Method::Switch(tables::delete_indirect),
    ),
    (
        "bm_mt_indirect_set_default_member",
        Method::Switch(profiles::set_default_member),
    ),
    (
        "bm_mt_indirect_reset_default_entry",
        Method::Switch(tables::reset_default),
    ),
    (
        "bm_mt_indirect_ws_add_entry",
        Method::Switch(tables::add_to_group),
    ),
    (
        "bm_mt_indirect_ws_modify_entry",
        Method::Switch(tables::modify_to_group),
    ),
    (
        "bm_mt_indirect_ws_set_default_group",
        Method::Switch(profiles::set_default_group),
    ),
    ("bm_mt_read_counter", Method::Switch(tables::read_counter)),
    (
        "bm_mt_reset_counters",
        Method::Switch(tables::reset_counters),
    ),
    ("bm_mt_write_counter", Method::Switch(tables::write_counter)),
    ("bm_mt_set_meter_rates", Method::Switch(tables::set_meter)),
    ("bm_mt_get_meter_rates", Method::Switch(tables::get_meter)),
    ("bm_mt_get_entries", Method::GetEntries),
    ("bm_mt_get_entry", Method::Switch(tables::get)),
    (
        "bm_mt_get_default_entry",
        Method::Switch(tables::get_default),
    ),
    (
        "bm_mt_get_entry_from_key",
        Method::Switch(tables::get_by_key),
    ),
    ("bm_counter_read", Method::Switch(arrays::counter_read)),
    (
        "bm_counter_reset_all",
        Method::Switch(arrays::counter_reset_all),
    ),
    ("bm_counter_write", Method::Switch(arrays::counter_write)),
    ("bm_learning_ack", Method::Switch(management::learning_ack)),
    (
        "bm_learning_ack_buffer",
        Method::Switch(management::learning_ack_buffer),
    ),
    (
        "bm_learning_set_timeout",
        Method::Switch(management::learning_timeout),
    ),
    (
        "bm_learning_set_buffer_size",
        Method::Switch(management::learning_size),
    ),
    ("bm_load_new_config", Method::LoadConfig),
    ("bm_swap_configs", Method::Switch(management::swap)),
    (
        "bm_meter_array_set_rates",
        Method::Switch(arrays::meter_array_set_rates),
    ),
    (
        "bm_meter_set_rates",
        Method::Switch(arrays::meter_set_rates),
    ),
    (
        "bm_meter_get_rates",
        Method::Switch(arrays::meter_get_rates),
    ),
    ("bm_register_read", Method::Switch(arrays::register_read)),
    (
        "bm_register_read_all",
        Method::Switch(arrays::register_read_all),
    ),
    ("bm_register_write", Method::Switch(arrays::register_write)),
    (
        "bm_register_write_range",
        Method::Switch(arrays::register_write_range),
    ),
    ("bm_register_reset", Method::Switch(arrays::register_reset)),
    ("bm_parse_vset_add", Method::Switch(value_sets::add)),
    ("bm_parse_vset_remove", Method::Switch(value_sets::remove)),
    ("bm_parse_vset_get", Method::Switch(value_sets::get)),
    ("bm_parse_vset_clear", Method::Switch(value_sets::clear)),
    ("bm_dev_mgr_add_port", Method::AddPort),
    ("bm_dev_mgr_remove_port", Method::RemovePort),
    (
        "bm_dev_mgr_show_ports",
        Method::Switch(management::show_ports),
    ),
    ("bm_mgmt_get_info", Method::Info),
    (
        "bm_set_crc16_custom_parameters",
        Method::Switch(management::set_crc16),
    ),
    (
        "bm_set_crc32_custom_parameters",
        Method::Switch(management::set_crc32),
    ),
    (
        "bm_set_toeplitz_hash_key",
        Method::Switch(management::set_toeplitz),
    ),
    ("bm_reset_state", Method::Switch(management::reset_state)),
    ("bm_get_config", Method::Source(management::config)),
    ("bm_get_config_md5", Method::Source(management::config_md5)),
    (
        "bm_get_id_from_name",
        Method::Source(management::id_from_name),
    ),
    ("bm_serialize_state", Method::Switch(management::serialize)),
];

/// Service `simple_pre_lag`.
const REPLICATION: &[(&str, Method)] = &[
    ("bm_mc_mgrp_create", Method::Switch(multicast::create_group)),
    (
        "bm_mc_mgrp_destroy",
        Method::Switch(multicast::destroy_group),
    ),
    ("bm_mc_node_create", Method::Switch(multicast::create_node)),
    ("bm_mc_node_associate", Method::Switch(multicast::associate)),
    (
        "bm_mc_node_dissociate",
        Method::Switch(multicast::dissociate),
    ),
    (
        "bm_mc_node_destroy",
        Method::Switch(multicast::destroy_node),
    ),
    ("bm_mc_node_update", Method::Switch(multicast::update_node)),
    (
        "bm_mc_set_lag_membership",
        Method::Switch(multicast::set_lag),
    ),
    ("bm_mc_get_entries", Method::Switch(multicast::get_entries)),
];

/// Service `simple_switch`.
const SIMPLE_SWITCH: &[(&str, Method)] = &[
    (
        "mirroring_mapping_add",
        Method::Switch(multicast::mapping_add),
    ),
    (
        "mirroring_mapping_delete",
        Method::Switch(multicast::mapping_delete),
    ),
    (
        "mirroring_mapping_get_egress_port",
        Method::Switch(multicast::mapping_get_port),
    ),
    (
        "mirroring_session_add",
        Method::Switch(multicast::session_add),
    ),
    (
        "mirroring_session_delete",
        Method::Switch(multicast::session_delete),
    ),
    (
        "mirroring_session_get",
        Method::Switch(multicast::session_get),
    ),
    (
        "set_egress_priority_queue_depth",
        Method::Switch(queues::priority_depth),
    ),
    ("set_egress_queue_depth", Method::Switch(queues::port_depth)),
    (
        "set_all_egress_queue_depths",
        Method::Switch(queues::all_depths),
    ),
    (
        "set_egress_priority_queue_rate",
        Method::Switch(queues::priority_rate),
    ),
    ("set_egress_queue_rate", Method::Switch(queues::port_rate)),
    (
        "set_all_egress_queue_rates",
        Method::Switch(queues::all_rates),
    ),
    ("get_time_elapsed_us", Method::Switch(queues::time_elapsed)),
    ("get_time_since_epoch_us", Method::Epoch),
];

const SERVICES: &[(&str, &[(&str, Method)])] = &[
    ("standard", STANDARD),
    ("simple_pre_lag", REPLICATION),
    ("simple_switch", SIMPLE_SWITCH),
];

fn find(name: &str) -> Result<Method, Refusal> {
    let Some((service, method)) = name.split_once(':') else {
        return Err(Refusal::unknown(format!(
            "{name}: the call names no service; those here are multiplexed: standard, simple_pre_lag, simple_switch"
        )));
    };
    let Some((_, methods)) = SERVICES.iter().find(|(name, _)| *name == service) else {
        return Err(Refusal::unknown(format!(
            "there is no service {service}; those here are standard, simple_pre_lag, simple_switch"
        )));
    };
    let found = methods.iter().find(|(name, _)| *name == method);
    found
        .map(|(_, method)| *method)
        .ok_or_else(|| Refusal::unknown(format!("service {service} has no method {method}")))
}

/// The names of all methods, as calls have them.
pub fn methods() -> impl Iterator<Item = String> {
    let of = |(service, methods): &(&'static str, &'static [(&'static str, Method)])| {
        let service = *service;
        methods
            .iter()
            .map(move |(method, _)| format!("{service}:{method}"))
    };
    SERVICES.iter().flat_map(of)
}

/// Answers a call; None for a message that gets no answer.
pub fn answer(
    message: Message,
    identity: &Identity,
    backend: &mut impl Backend,
) -> Option<Message> {
    let Message {
        kind,
        name,
        sequence,
        body,
    } = message;
    let result = match kind {
        Kind::Call | Kind::Oneway => {
            find(&name).and_then(|method| run(method, body, identity, backend))
        }
        Kind::Reply | Kind::Exception => Err(Refusal::malformed(
            "the message is a reply, not a call".to_owned(),
        )),
    };
    if kind == Kind::Oneway {
        return None;
    }
    // The reply has the name without the service.
    let name = name
        .split_once(':')
        .map_or(name.as_str(), |(_, method)| method);
    let (kind, body) = match result {
        Ok(None) => (Kind::Reply, Struct::default()),
        Ok(Some(value)) => (Kind::Reply, Struct(vec![(0, value)])),
        Err(Refusal::Declared(code)) => {
            let exception = fields([(1, Value::I32(code))]);
            (Kind::Reply, Struct(vec![(1, exception)]))
        }
        Err(Refusal::Application { kind, text: reason }) => (
            Kind::Exception,
            Struct(vec![(1, text(&reason)), (2, Value::I32(kind))]),
        ),
    };
    Some(Message {
        kind,
        name: name.to_owned(),
        sequence,
        body,
    })
}

fn run(method: Method, body: Struct, identity: &Identity, backend: &mut impl Backend) -> Answer {
    let body = Arc::new(body);
    match method {
        Method::Switch(operation) => on_switch(backend, &body, operation)?,
        Method::Source(operation) => {
            let source = backend.run(|_, core| core.node.source().map(<[u8]>::to_vec));
            let source = source.map_err(|Stopped| Refusal::stopped())?;
            operation(&source.unwrap_or_default(), Args(&body))
        }
        Method::GetEntries => {
            let mut dump = on_switch(backend, &body, tables::Dump::begin)??;
            loop {
                let turn = move |context: &mut Context<'_>, _: Args<'_>| dump.turn(context);
                match on_switch(backend, &body, turn)? {
                    Ok(value) => return Ok(Some(value)),
                    Err(rest) => dump = rest,
                }
            }
        }
        Method::LoadConfig => {
            let json = Args(&body).bytes(1)?.to_vec();
            let program = Program::from_json(&json).map_err(|error| {
                Refusal::unsupported(format!("the program cannot run: {error}"))
            })?;
            let loaded = Box::new((program, json));
            let keep =
                move |context: &mut Context<'_>, _: Args<'_>| management::keep(context, loaded);
            on_switch(backend, &body, keep)?;
            Ok(None)
        }
        Method::AddPort => {
            let check = |context: &mut Context<'_>, args: Args<'_>| {
                management::new_port(context.core, args)
            };
            let (number, name) = on_switch(backend, &body, check)??;
            let opened = backend.open(number, &name);
            let interface = opened.map_err(|_| management::port_error())?;
            let add = move |context: &mut Context<'_>, args: Args<'_>| {
                management::add_port(context, args, interface)
            };
            on_switch(backend, &body, add)?
        }
        Method::RemovePort => {
            // Closed here rather than on the dataplane thread.
            drop(on_switch(backend, &body, management::remove_port)??);
            Ok(None)
        }
        Method::Info => Ok(Some(fields([
            (1, Value::I64(identity.device_id.cast_signed())),
            (2, Value::I32(i32::from(identity.thrift_port))),
            (3, text(&identity.notifications)),
        ]))),
        Method::Epoch => {
            let since = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            Ok(Some(Value::I64(
                i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            )))
        }
    }
}

fn on_switch<R: Send + 'static>(
    backend: &mut impl Backend,
    body: &Arc<Struct>,
    operation: impl FnOnce(&mut Context<'_>, Args<'_>) -> R + Send + 'static,
) -> Result<R, Refusal> {
    let body = Arc::clone(body);
    let run = move |state: &mut State, core: &mut Core| {
        operation(&mut Context::new(state, core), Args(&body))
    };
    backend.run(run).map_err(|Stopped| Refusal::stopped())
}
