// SPDX-License-Identifier: Apache-2.0
//! The packet path allocates nothing once its buffers are warm.
#![expect(
    unsafe_code,
    reason = "a global allocator is unsafe to implement; this one only counts"
)]

mod workload;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn warm_packet_path_does_not_allocate() {
    let mut switch = workload::weir().expect("the checked-in program loads");
    let frames = workload::flows(1_000);
    let (now_ns, ..) = workload::pass(&mut switch, &frames, 0);
    let before = ALLOCATIONS.get();
    let (_, packets, _) = workload::pass(&mut switch, &frames, now_ns);
    let allocations = ALLOCATIONS.get() - before;
    assert_eq!(packets, 1_000, "forwarded, or reported");
    assert!(switch.stats().cloned > 0, "mirrored packets are among them");
    assert_eq!(allocations, 0);
}
