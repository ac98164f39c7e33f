// SPDX-License-Identifier: Apache-2.0
use super::*;

fn errors(status: &Status) -> Vec<Error> {
    let details = rpc::Status::decode(status.details()).unwrap();
    assert_eq!(details.code, Code::Unknown as i32);
    details
        .details
        .iter()
        .map(|any| Error::decode(&*any.value).unwrap())
        .collect()
}

#[test]
fn a_batch_without_failures_is_ok() {
    assert!(of_batch(&[Ok(()), Ok(())], "updates").is_ok());
    assert!(of_batch(&[], "updates").is_ok());
}

#[test]
fn every_update_has_its_own_error_in_order() {
    let outcomes = [
        Ok(()),
        Err(Failure::not_found("no entry")),
        Ok(()),
        Err(Failure::invalid("bad")),
    ];
    let status = of_batch(&outcomes, "updates").unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    assert_eq!(
        status.message(),
        "2 of 4 updates failed; the first: no entry"
    );
    let found: Vec<(i32, String)> = errors(&status)
        .into_iter()
        .map(|e| (e.canonical_code, e.message))
        .collect();
    assert_eq!(
        found,
        [
            (0, String::new()),
            (5, "no entry".to_owned()),
            (0, String::new()),
            (3, "bad".to_owned())
        ]
    );
}

#[test]
fn long_texts_are_cut_and_no_code_is_lost() {
    let outcomes: Vec<_> = (0..100)
        .map(|_| Err(Failure::invalid("é".repeat(200))))
        .collect();
    let found = errors(&of_batch(&outcomes, "updates").unwrap_err());
    assert_eq!(found.len(), 100);
    assert!(
        found
            .iter()
            .all(|error| error.canonical_code == Code::InvalidArgument as i32)
    );
    assert!(found.iter().map(|error| error.message.len()).sum::<usize>() <= MAX_TEXT_BYTES);
}

fn sent_bytes_of(updates: usize) -> usize {
    let outcomes: Vec<_> = (0..updates)
        .map(|_| Err(Failure::invalid("x".repeat(2000))))
        .collect();
    let status = of_batch(&outcomes, "updates").unwrap_err();
    assert_eq!(errors(&status).len(), updates);
    // base64 makes 4 bytes of 3.
    status.details().len() * 4 / 3 + status.message().len()
}

#[test]
fn details_of_a_hundred_updates_fit_in_the_metadata_that_any_client_takes() {
    for updates in 1..=100 {
        let sent = sent_bytes_of(updates);
        // The rest is for the names of the headers.
        assert!(sent <= 8192 - 256, "{updates} updates: {sent} bytes");
    }
}

#[test]
fn details_stay_within_the_metadata_that_the_specification_advises_clients_to_take() {
    for updates in [101, 200, 1_000, 10_000] {
        let sent = sent_bytes_of(updates);
        assert!(
            sent <= 8192 + 100 * updates,
            "{updates} updates: {sent} bytes"
        );
    }
}
