// SPDX-License-Identifier: Apache-2.0
//! Criterion benches of the packet path: `cargo bench -p weir-dataplane`.

mod workload;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// weir's own pipeline under its stated load, by number of flows.
fn weir(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("weir");
    for flow_count in [1, 1_000, 10_000] {
        let mut switch = workload::weir().expect("the checked-in program loads");
        let frames = workload::flows(flow_count);
        let mut now_ns = 0;
        group.throughput(Throughput::Elements(frames.len() as u64));
        group.bench_function(BenchmarkId::new("flows", flow_count), |bencher| {
            bencher.iter(|| now_ns = workload::pass(&mut switch, &frames, now_ns).0);
        });
    }
    group.finish();
}

/// Lookups of the router program by number of routes.
fn router(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ipv4_router");
    for routes in [1, 1_000, 10_000] {
        let (mut switch, frames) = workload::router(routes).expect("the checked-in program loads");
        let mut now_ns = 0;
        group.throughput(Throughput::Elements(frames.len() as u64));
        group.bench_function(BenchmarkId::new("routes", routes), |bencher| {
            bencher.iter(|| now_ns = workload::pass(&mut switch, &frames, now_ns).0);
        });
    }
    group.finish();
}

criterion_group!(benches, weir, router);
criterion_main!(benches);
