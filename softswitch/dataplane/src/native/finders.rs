// SPDX-License-Identifier: Apache-2.0
//! Lookups of keys of one to three words, which the code passes in registers: one function for each way in which a table
//! may search, so that none of them decides anything. The code calls the one of the table's way of now.

use super::frame::Frame;
use super::helper::report;
use crate::tables::{TableState, Way};

macro_rules! finder {
    ($name:ident, $lookup:ident, $($word:ident),+) => {
        unsafe extern "C" fn $name(
            frame: *mut Frame,
            table: *mut TableState,
            $($word: u64),+
        ) -> u64 {
            // SAFETY: called by the code with its frame and one of its tables.
            unsafe {
                let table = &mut *table;
                let found = table.$lookup(&[$($word),+]);
                report(frame, table, found)
            }
        }
    };
}

/// The type of a word.
macro_rules! word {
    ($word:ident) => {
        u64
    };
}

macro_rules! finders {
    ($name:ident, $($word:ident),+) => {
        /// Address of the functions for keys of so many words, by [`Way`].
        pub(super) fn $name() -> usize {
            type Finder =
                unsafe extern "C" fn(*mut Frame, *mut TableState $(, word!($word))+) -> u64;
            finder!(few, lookup_few, $($word),+);
            finder!(few_ranged, lookup_few_ranged, $($word),+);
            finder!(exact, lookup_exact, $($word),+);
            finder!(search, search, $($word),+);
            finder!(cached, lookup_cached, $($word),+);
            static BY_WAY: [Finder; WAYS.len()] = [few, few_ranged, exact, search, cached];
            BY_WAY.as_ptr().expose_provenance()
        }
    };
}

/// In the order of the functions.
const WAYS: [Way; 5] = [
    Way::Few,
    Way::FewRanged,
    Way::Exact,
    Way::Search,
    Way::Cached,
];

const _: () = {
    let mut at = 0;
    while at < WAYS.len() {
        assert!(
            WAYS[at] as usize == at * size_of::<usize>(),
            "a way is the distance of its functions"
        );
        at += 1;
    }
};

finders!(find_1, a);
finders!(find_2, a, b);
finders!(find_3, a, b, c);
