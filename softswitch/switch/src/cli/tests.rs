// SPDX-License-Identifier: Apache-2.0
use clap::CommandFactory;

use weir_dataplane::Shaper;

use super::*;

fn port(text: &str) -> Result<PortSpec, String> {
    text.parse().map_err(|error: PortError| error.to_string())
}

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}

#[test]
fn help_fits_a_terminal_of_80_columns() {
    let mut commands = vec![Cli::command()];
    while let Some(mut command) = commands.pop() {
        let name = command.get_name().to_owned();
        let verbatim = command.get_after_help().map(ToString::to_string);
        for line in verbatim.iter().flat_map(|text| text.lines()) {
            let is_broken = line.starts_with(' ') && line.chars().count() > 80;
            assert!(!is_broken, "{name}: {line}");
        }
        command = command.term_width(80);
        for line in command.render_long_help().to_string().lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
        commands.extend(command.get_subcommands().cloned());
    }
}

#[test]
fn a_port_needs_only_number_and_interface() {
    let spec = port("1=veth0").unwrap();
    assert_eq!(
        (spec.number, spec.interface.as_str(), spec.config),
        (1, "veth0", PortConfig::default())
    );
}

#[test]
fn all_options_of_a_port_are_read() {
    let spec = port("2=veth1,delay=10ms,rate=1Gbit/s,burst=15kB,limit=256kB").unwrap();
    assert_eq!(
        spec.config,
        PortConfig {
            shaper: Some(Shaper {
                rate_bps: 1_000_000_000,
                burst_bytes: 15_000
            }),
            queue_limit_bytes: Some(256_000),
            delay_ns: 10_000_000,
            ..PortConfig::default()
        }
    );
}

#[test]
fn a_port_receives_through_a_packet_ring_unless_it_is_given_af_xdp() {
    let reception = |text: &str| port(text).map(|spec| spec.reception);
    assert_eq!(reception("1=a,delay=1ms"), Ok(Reception::Ring));
    assert_eq!(reception("1=a,receive=ring"), Ok(Reception::Ring));
    assert_eq!(reception("1=a,delay=1ms,receive=xdp"), Ok(Reception::Xdp));
}

#[test]
fn a_burst_that_is_not_given_holds_a_millisecond_and_at_least_a_frame() {
    // 100 Mbit/s × 1 ms / 8 = 12 500 B; 1 Mbit/s × 1 ms / 8 = 125 B, less than a frame.
    let burst = |text: &str| port(text).unwrap().config.shaper.unwrap().burst_bytes;
    assert_eq!(burst("1=a,rate=100Mbit/s"), 12_500);
    assert_eq!(burst("1=a,rate=1Mbit/s"), 3_000);
}

#[test]
fn mistakes_are_named_with_what_is_valid() {
    for (given, expected) in [
        ("veth0", "no `=` between number and interface"),
        ("x=veth0", "`x` is not a port number between 0 and 511"),
        ("512=veth0", "`512` is not a port number"),
        ("1=", "the interface is missing"),
        ("1=rate=5Mbit/s", "the interface is missing"),
        (
            "1=a,speed=5Mbit/s",
            "port 1: there is no option `speed`; the options are rate, burst, limit",
        ),
        (
            "1=a,delay=10",
            "port 1: delay: `10` is not a time: the unit is missing",
        ),
        ("1=a,delay=1ms,delay=2ms", "`delay` is given twice"),
        (
            "1=a,receive=dpdk",
            "port 1: receive: `dpdk` is not ring or xdp",
        ),
        (
            "1=a,receive=xdp,receive=xdp",
            "port 1: `receive` is given twice",
        ),
        ("1=a,rate=0bit/s", "a rate of 0 lets nothing pass"),
        ("1=a,limit=5kB", "give a rate too"),
        ("1=a,rate=5Mbit/s,burst=0B", "a burst of 0"),
    ] {
        let message = port(given).unwrap_err();
        assert!(message.contains(expected), "{given}: {message}");
    }
}

#[test]
fn each_forwarding_thread_needs_a_port() {
    let refused = |ports: &[&str]| {
        let arguments = ["weir-switch", "--forward-threads", "3"].iter();
        let cli = Cli::try_parse_from(arguments.chain(ports)).unwrap();
        cli.port_configs().unwrap_err().to_string()
    };
    assert!(refused(&[]).ends_with("so at most 1 are valid"));
    let two = refused(&["--port", "1=a", "--port", "2=b"]);
    assert!(two.ends_with("so at most 2 are valid"), "{two}");
}

#[test]
fn ports_must_be_distinct_and_not_reserved() {
    let check = |arguments: &[&str]| {
        let arguments = ["weir-switch"].iter().chain(arguments);
        Cli::try_parse_from(arguments)
            .unwrap()
            .port_configs()
            .map(|ports| ports.len())
    };
    assert_eq!(check(&["--port", "1=a", "--port", "2=b"]), Ok(2));
    assert_eq!(
        check(&["--port", "1=a", "--port", "1=b"]),
        Err(PortError::NumberTwice { number: 1 })
    );
    assert!(matches!(
        check(&["--port", "1=a", "--port", "2=a"]),
        Err(PortError::InterfaceTwice { .. })
    ));
    assert!(matches!(
        check(&["--port", "510=a"]),
        Err(PortError::Reserved { number: 510, .. })
    ));
    assert!(matches!(
        check(&["--port", "511=a"]),
        Err(PortError::Reserved { number: 511, .. })
    ));
    let ahead = ["--virtual-time", "--run-ahead", "2"];
    let port = ["--port", "1=a,receive=xdp"];
    assert_eq!(
        check(&[ahead.as_slice(), &port].concat()),
        Err(PortError::XdpAhead { number: 1 })
    );
    assert!(matches!(
        check(&["--cpu-port", "511"]),
        Err(PortError::Reserved { .. })
    ));
}
