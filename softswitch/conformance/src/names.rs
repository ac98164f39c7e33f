// SPDX-License-Identifier: Apache-2.0
//! Resolves the names of a script in a program: STF may give only the end of a name where that is unambiguous.

use weir_dataplane::{ActionId, ProgramInfo, TableId};

/// Index of the item called `wanted`, else of the only item whose name ends with it.
///
/// # Errors
/// No such item, or several; with their names.
pub fn find<'a>(
    kind: &str,
    wanted: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<usize, String> {
    if let Some(index) = names.clone().position(|name| name == wanted) {
        return Ok(index);
    }
    let ending = names
        .clone()
        .enumerate()
        .filter(|(_, n)| n.ends_with(wanted));
    let found: Vec<(usize, &str)> = ending.collect();
    match found.as_slice() {
        [(index, _)] => Ok(*index),
        [] => Err(format!(
            "there is no {kind} {wanted:?} among {:?}",
            names.collect::<Vec<_>>()
        )),
        several => Err(format!("{kind} {wanted:?} may be any of {several:?}")),
    }
}

fn id(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// A table.
///
/// # Errors
/// As [`find`].
pub fn table(info: &ProgramInfo, wanted: &str) -> Result<TableId, String> {
    find("table", wanted, info.tables.iter().map(|t| t.name.as_str())).map(|i| TableId(id(i)))
}

/// An action of a table.
///
/// # Errors
/// As [`find`].
pub fn action(info: &ProgramInfo, actions: &[ActionId], wanted: &str) -> Result<ActionId, String> {
    let names = actions.iter().map(|a| {
        let action = info.actions.get(a.0 as usize);
        action.map_or("", |a| a.name.as_str())
    });
    find("action", wanted, names).map(|index| actions[index])
}

/// Index of the match field that a script calls `wanted`: stacks are written `name$0`, validity `name.valid` or `name.$valid`.
///
/// # Errors
/// There is none.
pub fn key_field(names: &[&str], wanted: &str) -> Result<usize, String> {
    let wanted = brackets(wanted);
    let exact = [
        wanted.clone(),
        format!("{wanted}$"),
        format!("{wanted}.$valid$"),
        wanted
            .strip_suffix("valid")
            .map_or(String::new(), |stem| format!("{stem}$valid$")),
    ];
    let whole = exact
        .iter()
        .find_map(|candidate| names.iter().position(|name| name == candidate));
    let ending = || {
        names.iter().rposition(|name| {
            name.ends_with(&format!(".{wanted}"))
                || name.ends_with(&format!(".{wanted}$"))
                || (wanted == "valid" && name.ends_with("$valid$"))
        })
    };
    whole
        .or_else(ending)
        .ok_or_else(|| format!("there is no match field {wanted:?} among {names:?}"))
}

/// `extra$0.h` as `extra[0].h`.
fn brackets(name: &str) -> String {
    let Some((stem, rest)) = name.rsplit_once('$') else {
        return name.to_owned();
    };
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    if digits == 0 {
        return name.to_owned();
    }
    format!("{stem}[{}]{}", &rest[..digits], &rest[digits..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_name_will_do_when_it_is_the_only_one() {
        let names = ["ingress.set", "ingress.reset", "egress.drop"];
        assert_eq!(find("action", "drop", names.into_iter()), Ok(2));
        assert_eq!(find("action", "ingress.set", names.into_iter()), Ok(0));
        assert!(find("action", "set", names.into_iter()).is_err());
        assert!(find("action", "none", names.into_iter()).is_err());
    }

    #[test]
    fn stack_elements_and_validity_are_found() {
        let names = ["hdr.extra[0].h", "data.$valid$", "f1"];
        assert_eq!(key_field(&names, "extra$0.h"), Ok(0));
        assert_eq!(key_field(&names, "data.valid"), Ok(1));
        assert_eq!(key_field(&names, "data"), Ok(1));
        assert_eq!(key_field(&names, "valid"), Ok(1));
        assert!(key_field(&names, "f2").is_err());
    }
}
