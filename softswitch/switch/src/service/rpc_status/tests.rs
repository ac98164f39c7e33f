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
