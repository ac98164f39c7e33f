// SPDX-License-Identifier: Apache-2.0
//! Ports that are capture files: frames come from `NAME_in.pcap` and go to `NAME_out.pcap`, as with bmv2's `--use-files`.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::{error, info, warn};
use weir_capture::{CaptureError, CaptureReader, Source};
use weir_ports::clocks::realtime_ns;
use weir_ports::recorder::CaptureFile;
use weir_ports::trunk::{Inlet, Trunk};

use super::options::PortAtInterface;

/// Creates the files for what leaves, and reads those of what arrives after `wait_s`, in order of time and as fast as
/// the switch takes them.
///
/// # Errors
/// A line that says which file cannot be written.
pub(super) fn open(ports: &[PortAtInterface], wait_s: u64) -> Result<Trunk, String> {
    let mut out = BTreeMap::new();
    for PortAtInterface { number, interface } in ports {
        let path = format!("{interface}_out.pcap");
        let file = CaptureFile::create(Path::new(&path));
        out.insert(
            *number,
            file.map_err(|error| format!("--use-files: cannot write {path}: {error}"))?,
        );
    }
    let send = move |port: u32, frame: &[u8]| {
        if let Some(file) = out.get_mut(&port) {
            file.write(realtime_ns(), frame);
        }
    };
    let system = |error| format!("--use-files: {error}");
    let (trunk, inlet) = Trunk::new(Box::new(send)).map_err(system)?;
    let name = |port: &PortAtInterface| PathBuf::from(format!("{}_in.pcap", port.interface));
    // By number: a reader and a writer of several named pipes must open them in the same order.
    let files: BTreeMap<u32, PathBuf> =
        ports.iter().map(|port| (port.number, name(port))).collect();
    let work = move || match play(&files, Duration::from_secs(wait_s), &inlet) {
        Ok(frames) => info!(target: "weir", "--use-files: {frames} frames were read"),
        Err(error) => error!(target: "weir", "--use-files: {error}"),
    };
    let started = std::thread::Builder::new()
        .name("files".to_owned())
        .spawn(work);
    started.map_err(system)?;
    Ok(trunk)
}

/// The next frame of a file.
struct Next {
    port: u32,
    time_ns: i64,
    frame: Vec<u8>,
}

/// Gives the switch the frames of all files in order of time; returns their number.
fn play(
    files: &BTreeMap<u32, PathBuf>,
    wait: Duration,
    inlet: &Inlet,
) -> Result<u64, CaptureError> {
    // All are opened before the first is read: their writer may open all before it writes to any.
    let mut opened = Vec::new();
    for (port, path) in files {
        let file = File::open(path).map_err(|error| CaptureError::unreadable(path, &error))?;
        opened.push((*port, path, file));
    }
    let mut readers = Vec::new();
    for (port, path, file) in opened {
        let source = Source::new(file).map_err(|error| CaptureError::unreadable(path, &error))?;
        readers.push((port, CaptureReader::new(source, path)?));
    }
    std::thread::sleep(wait);
    let mut next = Vec::new();
    for (port, reader) in &mut readers {
        next.push(read(*port, reader)?);
    }
    let mut frames = 0;
    loop {
        let first = next.iter().enumerate();
        let first = first.filter_map(|(at, next)| Some((next.as_ref()?.time_ns, at)));
        let Some((_, at)) = first.min() else {
            return Ok(frames);
        };
        let (port, reader) = &mut readers[at];
        let following = read(*port, reader)?;
        if let Some(Next { port, frame, .. }) = std::mem::replace(&mut next[at], following) {
            frames += 1;
            if !inlet.push(port, frame) {
                return Ok(frames);
            }
        }
    }
}

fn read(port: u32, reader: &mut CaptureReader<Source>) -> Result<Option<Next>, CaptureError> {
    let Some(record) = reader.next_record()? else {
        return Ok(None);
    };
    if record.bytes.len() != record.wire_length as usize {
        warn!(
            target: "weir",
            "--use-files: port {port}: a frame of {} bytes is cut to {}; it is sent so",
            record.wire_length,
            record.bytes.len()
        );
    }
    Ok(Some(Next {
        port,
        time_ns: record.time_ns,
        frame: record.bytes.to_vec(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_several_files_come_in_the_order_of_their_times() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = BTreeMap::new();
        for (port, times) in [(1, [10, 30]), (2, [20, 25])] {
            let path = dir.path().join(format!("{port}.pcap"));
            let mut file = CaptureFile::create(&path).unwrap();
            for time in times {
                file.write(time * 1_000_000_000, &[time as u8; 14]);
            }
            files.insert(port, path);
        }
        let (mut trunk, inlet) = Trunk::new(Box::new(|_, _| {})).unwrap();
        assert_eq!(play(&files, Duration::ZERO, &inlet).unwrap(), 4);
        let arrivals = std::iter::from_fn(|| trunk.take());
        let seen: Vec<_> = arrivals.map(|a| (a.port, a.frame[0])).collect();
        assert_eq!(seen, [(1, 10), (2, 20), (2, 25), (1, 30)]);
    }
}
