// SPDX-License-Identifier: Apache-2.0
use super::*;

const DEVICE: u64 = 1;

fn update(election_id: Option<u128>) -> MasterArbitrationUpdate {
    MasterArbitrationUpdate {
        device_id: DEVICE,
        election_id: election_id.map(message),
        ..MasterArbitrationUpdate::default()
    }
}

/// Client and code of each notification.
fn codes(notifications: Vec<Notification>) -> Vec<(ClientId, Code)> {
    notifications
        .into_iter()
        .map(|(client, n)| (client, Code::from(n.status.unwrap().code)))
        .collect()
}

#[test]
fn the_highest_election_id_is_primary_and_all_are_told_of_a_change() {
    let mut arbitration = Arbitration::new(DEVICE);
    assert_eq!(
        codes(arbitration.update(1, &update(Some(10))).unwrap()),
        [(1, Code::Ok)]
    );
    assert_eq!(
        codes(arbitration.update(2, &update(Some(5))).unwrap()),
        [(2, Code::AlreadyExists)]
    );
    // The new primary is notified last, after all others.
    assert_eq!(
        codes(arbitration.update(3, &update(Some(11))).unwrap()),
        [
            (1, Code::AlreadyExists),
            (2, Code::AlreadyExists),
            (3, Code::Ok)
        ]
    );
    assert!(arbitration.access_of("", Some(11)).is_ok());
    assert!(arbitration.access_of("", Some(10)).is_err());
}

#[test]
fn a_role_too_long_to_be_repeated_to_all_its_controllers_is_refused() {
    let mut arbitration = Arbitration::new(DEVICE);
    let with_name = |bytes: usize| MasterArbitrationUpdate {
        role: Some(Role {
            name: "r".repeat(bytes),
            ..Role::default()
        }),
        ..update(Some(1))
    };
    let refused = arbitration.update(1, &with_name(MAX_ROLE_BYTES));
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(
        refused.message().contains("at most 65536 are valid"),
        "{refused}"
    );
    assert!(!arbitration.is_live(1));
    arbitration
        .update(1, &with_name(MAX_ROLE_BYTES - 8))
        .unwrap();
}

#[test]
fn election_ids_are_compared_as_128_bits() {
    let mut arbitration = Arbitration::new(DEVICE);
    let high = 1_u128 << 64;
    arbitration.update(1, &update(Some(high))).unwrap();
    arbitration
        .update(2, &update(Some(u128::from(u64::MAX))))
        .unwrap();
    assert!(arbitration.access_as_primary(1).is_some());
}

#[test]
fn when_the_primary_goes_all_backups_are_told_and_none_takes_over_unasked() {
    let mut arbitration = Arbitration::new(DEVICE);
    arbitration.update(1, &update(Some(10))).unwrap();
    arbitration.update(2, &update(Some(5))).unwrap();
    let told = arbitration.disconnect(1);
    assert_eq!(
        told[0].1.election_id,
        Some(message(10)),
        "the highest id that was ever seen"
    );
    assert_eq!(codes(told), [(2, Code::NotFound)]);
    assert_eq!(arbitration.primaries().count(), 0);
    // 5 is below the highest id ever seen: still a backup.
    assert_eq!(
        codes(arbitration.update(2, &update(Some(5))).unwrap()),
        [(2, Code::NotFound)]
    );
    assert_eq!(
        codes(arbitration.update(2, &update(Some(10))).unwrap()),
        [(2, Code::Ok)]
    );
}

#[test]
fn a_backup_that_goes_disturbs_nobody() {
    let mut arbitration = Arbitration::new(DEVICE);
    arbitration.update(1, &update(Some(10))).unwrap();
    arbitration.update(2, &update(Some(5))).unwrap();
    assert!(arbitration.disconnect(2).is_empty());
    assert!(arbitration.access_of("", Some(10)).is_ok());
}

#[test]
fn a_primary_that_lowers_its_id_becomes_a_backup_and_all_are_told() {
    let mut arbitration = Arbitration::new(DEVICE);
    arbitration.update(1, &update(Some(10))).unwrap();
    arbitration.update(2, &update(Some(5))).unwrap();
    assert_eq!(
        codes(arbitration.update(1, &update(Some(4))).unwrap()),
        [(1, Code::NotFound), (2, Code::NotFound)]
    );
    assert!(arbitration.access_of("", Some(4)).is_err());
}

#[test]
fn without_an_election_id_nobody_is_primary_but_zero_is_an_id() {
    let mut arbitration = Arbitration::new(DEVICE);
    assert_eq!(
        codes(arbitration.update(1, &update(None)).unwrap()),
        [(1, Code::NotFound)]
    );
    assert!(arbitration.access_of("", None).is_err());
    assert_eq!(
        codes(arbitration.update(2, &update(Some(0))).unwrap()),
        [(1, Code::AlreadyExists), (2, Code::Ok)]
    );
    assert!(arbitration.access_of("", Some(0)).is_ok());
}

#[test]
fn an_election_id_of_another_live_controller_ends_the_stream() {
    let mut arbitration = Arbitration::new(DEVICE);
    arbitration.update(1, &update(Some(10))).unwrap();
    assert_eq!(
        arbitration.update(2, &update(Some(10))).unwrap_err().code(),
        Code::InvalidArgument
    );
    assert!(!arbitration.is_live(2));
    assert!(
        arbitration.update(1, &update(Some(10))).is_ok(),
        "its own id again"
    );
}

#[test]
fn a_foreign_device_is_not_found_at_first_and_a_failed_precondition_later() {
    let mut arbitration = Arbitration::new(DEVICE);
    let foreign = MasterArbitrationUpdate {
        device_id: 2,
        ..update(Some(1))
    };
    assert_eq!(
        arbitration.update(1, &foreign).unwrap_err().code(),
        Code::NotFound
    );
    arbitration.update(1, &update(Some(1))).unwrap();
    assert_eq!(
        arbitration.update(1, &foreign).unwrap_err().code(),
        Code::FailedPrecondition
    );
}

fn of_role(name: &str, config: Option<Any>, election_id: u128) -> MasterArbitrationUpdate {
    MasterArbitrationUpdate {
        role: Some(Role {
            name: name.to_owned(),
            config,
            ..Role::default()
        }),
        ..update(Some(election_id))
    }
}

#[test]
fn each_role_has_a_primary_of_its_own() {
    let mut arbitration = Arbitration::new(DEVICE);
    arbitration.update(1, &update(Some(10))).unwrap();
    let told = arbitration.update(2, &of_role("router", None, 5)).unwrap();
    assert_eq!(told[0].1.role.as_ref().unwrap().name, "router");
    assert_eq!(codes(told), [(2, Code::Ok)]);
    assert!(arbitration.access_of("", Some(10)).is_ok());
    assert!(arbitration.access_of("router", Some(5)).is_ok());
    let refused = arbitration.access_of("router", Some(10)).unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let unknown = arbitration.access_of("absent", Some(10)).unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    assert_eq!(codes(arbitration.disconnect(2)), []);
    assert!(arbitration.access_of("", Some(10)).is_ok());
}

/// An arbitration with as many roles as it may have: the default role, and roles 1 to `MAX_ROLES - 1`, each with the client
/// of its number as primary.
fn full() -> Arbitration {
    let mut arbitration = Arbitration::new(DEVICE);
    for number in 1..MAX_ROLES as ClientId {
        let primary = of_role(&number.to_string(), None, 5);
        arbitration.update(number, &primary).unwrap();
    }
    arbitration
}

#[test]
fn one_role_too_many_with_controllers_is_refused() {
    let mut arbitration = full();
    let refused = arbitration.update(1000, &of_role("new", None, 5));
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(
        refused.message().contains("256 roles have controllers"),
        "{refused}"
    );
    assert!(!arbitration.is_live(1000));
    assert!(
        arbitration.update(1000, &of_role("7", None, 4)).is_ok(),
        "an old role"
    );
}

#[test]
fn beyond_the_limit_the_role_that_was_left_first_is_forgotten() {
    let mut arbitration = full();
    for left in [30, 20] {
        arbitration.disconnect(left);
    }
    // The role that was left first is used again, and left once more.
    arbitration.update(1000, &of_role("30", None, 4)).unwrap();
    arbitration.disconnect(1000);
    arbitration.update(1001, &of_role("new", None, 5)).unwrap();
    let of_lower_id = |arbitration: &mut Arbitration, client, name| {
        codes(arbitration.update(client, &of_role(name, None, 4)).unwrap())
    };
    assert_eq!(
        of_lower_id(&mut arbitration, 1002, "30"),
        [(1002, Code::NotFound)],
        "its election id 5 is remembered"
    );
    arbitration.disconnect(1001);
    assert_eq!(
        of_lower_id(&mut arbitration, 1003, "20"),
        [(1003, Code::Ok)],
        "it was forgotten"
    );
    let of_default = arbitration.access_of("", Some(5)).unwrap_err();
    assert_eq!(of_default.code(), Code::PermissionDenied, "it always is");
}

#[test]
fn a_role_that_never_had_a_primary_goes_with_its_last_controller() {
    let mut arbitration = full();
    arbitration.disconnect(20);
    for client in 1000..2000 {
        let backup = MasterArbitrationUpdate {
            election_id: None,
            ..of_role(&client.to_string(), None, 0)
        };
        arbitration.update(client, &backup).unwrap();
        arbitration.disconnect(client);
    }
    assert!(
        arbitration.roles.len() < MAX_ROLES,
        "{}",
        arbitration.roles.len()
    );
}

#[test]
fn a_stream_keeps_its_role() {
    let mut arbitration = Arbitration::new(DEVICE);
    arbitration.update(1, &of_role("router", None, 5)).unwrap();
    let status = arbitration.update(1, &of_role("bridge", None, 5));
    assert_eq!(status.unwrap_err().code(), Code::FailedPrecondition);
}

#[test]
fn a_config_of_another_scheme_is_an_invalid_argument() {
    let mut arbitration = Arbitration::new(DEVICE);
    let foreign = Any {
        type_url: "type.googleapis.com/stratum.P4RoleConfig".to_owned(),
        value: Vec::new(),
    };
    let status = arbitration
        .update(1, &of_role("router", Some(foreign), 5))
        .unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("P4Info"), "{}", status.message());
}

#[test]
fn as_in_pi_an_unset_election_id_is_zero_and_served_while_no_controller_is_live() {
    let mut arbitration = Arbitration::new(DEVICE);
    assert!(arbitration.access_of("", None).is_err());
    arbitration.arbitrate_as_pi();
    assert!(arbitration.access_of("", None).is_ok());
    assert!(arbitration.access_of("", Some(0)).is_err());
    let update_to = |arbitration: &mut Arbitration, client, id| {
        codes(arbitration.update(client, &update(id)).unwrap())
    };
    assert_eq!(update_to(&mut arbitration, 1, None), [(1, Code::Ok)]);
    assert!(arbitration.update(2, &update(Some(0))).is_err());
    assert!(arbitration.access_of("", None).is_ok());
    assert_eq!(
        update_to(&mut arbitration, 2, Some(5)),
        [(1, Code::AlreadyExists), (2, Code::Ok)]
    );
    assert!(arbitration.access_of("", None).is_err());
    assert!(arbitration.access_of("", Some(5)).is_ok());
}
