// SPDX-License-Identifier: Apache-2.0
use super::*;

fn config(text: &str) -> Result<PortConfig, String> {
    let options = parse(text).map_err(|error| error.to_string())?;
    options
        .apply(PortConfig::default())
        .map_err(|error| error.to_string())
}

#[test]
fn every_option_is_read_and_shown_as_it_is_read() {
    let text = "rate=8000000bit/s,burst=3000B,limit=64000B,packets=100,deflect=3,q7.rate=1000bit/s,q7.burst=1500B,\
                q7.limit=1B,q7.packets=2,q7.deflect=4,line=1000000000bit/s,delay=5ns,jitter=6ns,loss=1000ppb,\
                reorder=yes";
    let read = config(text).unwrap();
    assert_eq!(show(&read), text);
    assert_eq!(
        read.queues[7].shaper.map(|shaper| shaper.burst_bytes),
        Some(1_500)
    );
}

#[test]
fn options_that_are_not_given_stay_and_none_takes_one_away() {
    let base = config("rate=1Mbit/s,burst=9kB,delay=1ms,loss=0.1%").unwrap();
    let changed = parse("rate=2Mbit/s,loss=none")
        .and_then(|options| options.apply(base))
        .unwrap();
    assert_eq!(
        show(&changed),
        "rate=2000000bit/s,burst=9000B,limit=256000B,delay=1000000ns"
    );
    let unshaped = parse("rate=none").and_then(|options| options.apply(changed));
    assert_eq!(unshaped.unwrap().shaper, None);
}

#[test]
fn mistakes_are_named_with_what_is_valid() {
    for (given, expected) in [
        ("delay", "not an option with a value"),
        ("q8.rate=1bit/s", "no option `q8.rate`"),
        ("q1.delay=1ms", "no option `q1.delay`; the options are rate"),
        ("loss=0.1", "the unit is missing"),
        ("loss=101%", "a loss of 0 to 100 %"),
        ("reorder=maybe", "`maybe` is not yes or no"),
        ("reorder=yes,reorder=yes", "`reorder` is given twice"),
        ("packets=many", "`many` is not a number of packets"),
        ("deflect=512", "a port between 0 and 511"),
        ("q2.burst=5kB", "give a rate too"),
        ("line=0bit/s", "a line rate of 0"),
    ] {
        let message = config(given).unwrap_err();
        assert!(message.contains(expected), "{given}: {message}");
    }
}
