// SPDX-License-Identifier: Apache-2.0
//! The Python module `weir_core`. Tables cross as `pyarrow.Table` without a copy.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_pyarrow::{IntoPyArrow, PyArrowType, Table};
use arrow_schema::ArrowError;
use pyo3::buffer::PyBuffer;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::bucket::Bucket;
use crate::infer::{Cause, Loss, RttSample, Verdict};
use crate::join::{ClockPiece, HostCapture, Reports, Unmatched};
use crate::losses::{Scan, Summary};
use crate::tracker::{Flow, FlowSink, FlowStats};
use crate::transport::{TransportPacket, TransportScan};
use crate::{acknowledged, join, losses, tables};

create_exception!(
    weir_core,
    CaptureError,
    PyValueError,
    "A file that cannot be read as what it should be."
);

fn capture_error(py: Python<'_>, error: &crate::CaptureError) -> PyErr {
    let raised = CaptureError::new_err(error.to_string());
    let value = raised.value(py);
    let attributes = value
        .setattr("path", error.path.display().to_string())
        .and_then(|()| value.setattr("offset", error.offset))
        .and_then(|()| value.setattr("problem", &error.problem))
        .and_then(|()| value.setattr("valid", error.valid));
    match attributes {
        Ok(()) => raised,
        Err(other) => other,
    }
}

fn bug(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(format!("weir_core built an impossible table: {error}"))
}

/// A record batch as a `pyarrow.Table`.
fn table(py: Python<'_>, batch: Result<RecordBatch, ArrowError>) -> PyResult<Py<PyAny>> {
    let batch = batch.map_err(bug)?;
    let schema = batch.schema();
    let table = Table::try_new(vec![batch], schema).map_err(bug)?;
    table.into_pyarrow(py).map(Bound::unbind)
}

/// Runs a step of a scan without the interpreter's lock; returns whether the scan is at its end.
fn at_end_after(
    py: Python<'_>,
    step: impl FnOnce() -> Result<bool, crate::CaptureError> + Send,
) -> PyResult<bool> {
    let more = py.detach(step).map_err(|error| capture_error(py, &error))?;
    py.check_signals()?;
    Ok(!more)
}

/// The result of one capture; see `read_losses`.
#[pyclass(frozen, get_all)]
struct Losses {
    flows: Py<PyAny>,
    losses: Py<PyAny>,
    rtts: Py<PyAny>,
    delivery_rates: Py<PyAny>,
    records: u64,
    not_ip: u64,
    truncated: bool,
    warnings: Vec<String>,
}

/// The losses of a capture as it is read; see `stream_losses`.
#[pyclass]
struct LossStream {
    path: PathBuf,
    scan: Scan,
    found: Found,
    at_end: bool,
}

/// Losses that are not in a table yet.
#[derive(Default)]
struct Found(Vec<(u32, Loss)>);

impl FlowSink for Found {
    fn before(&mut self, flow: u32, loss: Loss) {
        self.0.push((flow, loss));
    }

    fn verdict(&mut self, flow: u32, _tag: u64, verdict: Verdict) {
        if let Verdict::Lost { loss, .. } = verdict {
            self.0.push((flow, loss));
        }
    }

    fn rtt(&mut self, _flow: u32, _sample: RttSample) {}
}

/// Keeps nothing: only the counts are needed.
struct Uncollected;

impl FlowSink for Uncollected {
    fn verdict(&mut self, _flow: u32, _tag: u64, _verdict: Verdict) {}
    fn rtt(&mut self, _flow: u32, _sample: RttSample) {}
}

/// A row of the flows table without Arrow, whose Python package takes more memory than the capture's flows.
fn flow_row<'py>(py: Python<'py>, number: usize, flow: &Flow) -> PyResult<Bound<'py, PyDict>> {
    let (key, stats) = (&flow.key, &flow.stats);
    let row = PyDict::new(py);
    row.set_item("flow", number)?;
    row.set_item("src", key.src.to_string())?;
    row.set_item("dst", key.dst.to_string())?;
    row.set_item("src_port", key.src_port)?;
    row.set_item("dst_port", key.dst_port)?;
    row.set_item("protocol", key.protocol)?;
    row.set_item("packets", stats.packets)?;
    row.set_item("bytes", stats.bytes)?;
    row.set_item("payload_bytes", stats.payload_bytes)?;
    row.set_item("first_ns", stats.first_ns)?;
    row.set_item("last_ns", stats.last_ns)?;
    row.set_item("min_rtt_ns", stats.min_rtt_ns)?;
    row.set_item("retransmissions", stats.retransmissions)?;
    row.set_item("spurious", stats.spurious)?;
    row.set_item("losses", stats.losses)?;
    for cause in Cause::ALL {
        row.set_item(cause.name(), stats.losses_by_cause[cause as usize])?;
    }
    row.set_item("losses_before", stats.losses_before)?;
    row.set_item("overtaken", stats.overtaken)?;
    row.set_item("copies", stats.copies)?;
    row.set_item("missed_bytes", stats.missed_bytes)?;
    row.set_item("cut_acknowledgments", stats.cut_acknowledgments)?;
    Ok(row)
}

impl LossStream {
    fn summary(&self) -> &Summary {
        self.scan.summary()
    }
}

#[pymethods]
impl LossStream {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.at_end {
            return Ok(None);
        }
        while self.found.0.len() < STREAMED_ROWS && !self.at_end {
            let (scan, found) = (&mut self.scan, &mut self.found);
            self.at_end = at_end_after(py, || scan.step(found))?;
        }
        let losses = std::mem::take(&mut self.found.0);
        table(py, tables::losses(&losses)).map(Some)
    }

    #[getter]
    fn flows(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        table(py, tables::flows(self.summary().tracker.flows()))
    }

    /// Reads to the end without keeping the losses, for the counts alone.
    fn drain(&mut self, py: Python<'_>) -> PyResult<()> {
        while !self.at_end {
            let scan = &mut self.scan;
            self.at_end = at_end_after(py, || scan.step(&mut Uncollected))?;
        }
        Ok(())
    }

    /// The flows that carried most payload, the largest first; none without payload.
    fn largest<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let flows = self.summary().tracker.flows();
        let mut order: Vec<usize> = (0..flows.len())
            .filter(|&at| flows[at].stats.payload_bytes > 0)
            .collect();
        order.sort_by_key(|&at| (Reverse(flows[at].stats.payload_bytes), at));
        order.truncate(number);
        let row = |at: usize| flow_row(py, at, &flows[at]);
        order.into_iter().map(row).collect()
    }

    /// Counts of all flows together.
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let flows = self.summary().tracker.flows();
        let sum = |of: fn(&FlowStats) -> u64| flows.iter().map(|flow| of(&flow.stats)).sum::<u64>();
        let totals = PyDict::new(py);
        totals.set_item("flows", flows.len())?;
        totals.set_item(
            "flows_with_data",
            sum(|stats| u64::from(stats.payload_bytes > 0)),
        )?;
        totals.set_item("packets", sum(|stats| stats.packets))?;
        totals.set_item("retransmissions", sum(|stats| stats.retransmissions))?;
        totals.set_item("spurious", sum(|stats| stats.spurious))?;
        totals.set_item("losses", sum(|stats| stats.losses))?;
        for cause in Cause::ALL {
            let of_cause = flows
                .iter()
                .map(|flow| flow.stats.losses_by_cause[cause as usize]);
            totals.set_item(cause.name(), of_cause.sum::<u64>())?;
        }
        totals.set_item("losses_before", sum(|stats| stats.losses_before))?;
        totals.set_item("missed_bytes", sum(|stats| stats.missed_bytes))?;
        totals.set_item(
            "cut_acknowledgments",
            sum(|stats| stats.cut_acknowledgments),
        )?;
        Ok(totals)
    }

    #[getter]
    fn records(&self) -> u64 {
        self.summary().records
    }

    #[getter]
    fn not_ip(&self) -> u64 {
        self.summary().not_ip
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.summary().notes.lines(&self.path)
    }
}

/// The TCP segments and UDP datagrams of a capture as it is read; see `stream_segments`.
#[pyclass]
struct SegmentStream {
    path: PathBuf,
    scan: TransportScan,
    found: Vec<TransportPacket>,
    at_end: bool,
}

#[pymethods]
impl SegmentStream {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.at_end {
            return Ok(None);
        }
        while self.found.len() < STREAMED_ROWS && !self.at_end {
            let (scan, found) = (&mut self.scan, &mut self.found);
            self.at_end = at_end_after(py, || scan.step(found))?;
        }
        let packets = std::mem::take(&mut self.found);
        table(py, tables::segments(&packets)).map(Some)
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.scan.notes().lines(&self.path)
    }
}

/// A run's captures joined with its drop reports; see `join_run`.
#[pyclass(frozen)]
struct Joined {
    #[pyo3(get)]
    flows: Py<PyAny>,
    #[pyo3(get)]
    packets: Py<PyAny>,
    #[pyo3(get)]
    rtts: Py<PyAny>,
    #[pyo3(get)]
    delivery_rates: Py<PyAny>,
    unmatched: Unmatched,
    #[pyo3(get)]
    records: Vec<u64>,
    #[pyo3(get)]
    warnings: Vec<String>,
}

#[pymethods]
impl Joined {
    #[getter]
    fn unmatched<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = PyDict::new(py);
        counts.set_item("reports", self.unmatched.reports)?;
        counts.set_item("received", self.unmatched.received)?;
        counts.set_item("received_and_dropped", self.unmatched.received_and_dropped)?;
        counts.set_item("reports_not_ip", self.unmatched.reports_not_ip)?;
        counts.set_item("not_ip", self.unmatched.not_ip)?;
        counts.set_item("foreign", self.unmatched.foreign)?;
        Ok(counts)
    }
}

/// Rows of one table of a stream, or a few more.
const STREAMED_ROWS: usize = 1 << 16;

/// Reads one capture taken at the sender and infers which transmissions were lost.
///
/// Raises `CaptureError` when the file is not a capture or is damaged.
#[pyfunction]
fn read_losses(py: Python<'_>, path: PathBuf) -> PyResult<Losses> {
    let read = py
        .detach(|| losses::read_losses(&path))
        .map_err(|error| capture_error(py, &error))?;
    Ok(Losses {
        flows: table(py, tables::flows(&read.flows))?,
        losses: table(py, tables::losses(&read.losses))?,
        rtts: table(py, tables::rtts(&read.rtts))?,
        delivery_rates: table(py, tables::delivery_rates(&read.delivery_rates))?,
        records: read.records,
        not_ip: read.not_ip,
        truncated: read.truncated,
        warnings: read.notes.lines(&path),
    })
}

/// Reads one capture taken at the sender: an iterator of loss tables, in memory that does not grow with the file.
///
/// Raises `CaptureError` as `read_losses` does, from the iterator too.
#[pyfunction]
fn stream_losses(py: Python<'_>, path: PathBuf) -> PyResult<LossStream> {
    let scan = Scan::open(&path).map_err(|error| capture_error(py, &error))?;
    Ok(LossStream {
        path,
        scan,
        found: Found::default(),
        at_end: false,
    })
}

/// Reads the TCP segments and UDP datagrams of a capture: an iterator of tables, in memory that does not grow with the file.
///
/// Raises `CaptureError` when the file is not a capture; from the iterator, when it is damaged or ends inside a record.
/// `may_be_cut`: a file that ends inside a record ends before it.
#[pyfunction]
#[pyo3(signature = (path, *, may_be_cut = false))]
fn stream_segments(py: Python<'_>, path: PathBuf, may_be_cut: bool) -> PyResult<SegmentStream> {
    let scan = TransportScan::open(&path).map_err(|error| capture_error(py, &error))?;
    Ok(SegmentStream {
        path,
        scan: if may_be_cut { scan.cut() } else { scan },
        found: Vec::new(),
        at_end: false,
    })
}

/// Reads which bytes of which flow each ACK of a capture is the first to acknowledge: a table. A file that ends inside a
/// record is read up to it.
///
/// Raises `CaptureError` when the file is not a capture or is damaged.
#[pyfunction]
fn read_acknowledged(py: Python<'_>, path: PathBuf) -> PyResult<Py<PyAny>> {
    let rows = py
        .detach(|| acknowledged::read_acknowledged(&path))
        .map_err(|error| capture_error(py, &error))?;
    table(py, tables::acknowledged(&rows))
}

/// Joins the captures of several hosts (path, addresses of that host; none: all) with the drop reports of a
/// telemetry.parquet, if given: its path, for messages, and its rows (`pyarrow.RecordBatchReader`).
///
/// `clocks`, one for each capture, moves its times: pieces (first record, a time, the other clock's time then, drift).
///
/// Raises `CaptureError` when a file is not what it should be, `ValueError` for text that is not an IP address and for
/// clocks that are not one for each capture.
#[pyfunction]
#[pyo3(signature = (captures, reports=None, clocks=None))]
fn join_run(
    py: Python<'_>,
    captures: Vec<(PathBuf, Vec<String>)>,
    reports: Option<(PathBuf, PyArrowType<RecordBatchStreamReader>)>,
    clocks: Option<Vec<Vec<(u64, i64, i64, f64)>>>,
) -> PyResult<Joined> {
    let clocks = clocks.unwrap_or_else(|| vec![Vec::new(); captures.len()]);
    if clocks.len() != captures.len() {
        return Err(PyValueError::new_err(format!(
            "{} clocks for {} captures; give one for each, which may be empty",
            clocks.len(),
            captures.len()
        )));
    }
    let captures = captures
        .into_iter()
        .zip(clocks)
        .map(|((path, addresses), pieces)| {
            let addresses = addresses
                .iter()
                .map(|text| address(text))
                .collect::<PyResult<_>>()?;
            let clock = pieces.into_iter().map(clock_piece).collect();
            Ok(HostCapture {
                path,
                addresses,
                clock,
            })
        })
        .collect::<PyResult<Vec<_>>>()?;
    let joined = py
        .detach(|| {
            let mut reports = reports.map(|(path, rows)| (path, rows.0));
            let reports = reports
                .as_mut()
                .map(|(path, batches)| Reports { path, batches });
            join::join_run(&captures, reports)
        })
        .map_err(|error| capture_error(py, &error))?;
    Ok(Joined {
        flows: table(py, tables::joined_flows(&joined))?,
        packets: table(py, tables::joined_packets(&joined))?,
        rtts: table(py, tables::rtts(&joined.rtts))?,
        delivery_rates: table(py, tables::delivery_rates(&joined.delivery_rates))?,
        unmatched: joined.unmatched,
        records: joined.records,
        warnings: joined
            .notes
            .iter()
            .flat_map(|(path, notes)| notes.lines(path))
            .collect(),
    })
}

fn clock_piece((first_record, source_ns, target_ns, drift): (u64, i64, i64, f64)) -> ClockPiece {
    ClockPiece {
        first_record,
        source_ns,
        target_ns,
        drift,
    }
}

fn address(text: &str) -> PyResult<IpAddr> {
    text.parse().map_err(|_| {
        PyValueError::new_err(format!(
            "{text:?} is no IP address; valid is one like 10.0.0.1 or fd00::1"
        ))
    })
}

/// See `bucket::Bucket`.
#[pyclass(frozen)]
struct TokenBucket(Bucket);

#[pymethods]
impl TokenBucket {
    #[new]
    fn new(steps_of_load: f64, jitter_steps: u64) -> Self {
        Self(Bucket::new(steps_of_load, jitter_steps))
    }

    fn drop_probabilities(
        &self,
        py: Python<'_>,
        steps: PyBuffer<i64>,
        lost: PyBuffer<u8>,
    ) -> PyResult<Vec<f64>> {
        let (steps, lost) = (steps.to_vec(py)?, lost.to_vec(py)?);
        if steps.len() != lost.len() {
            return Err(PyValueError::new_err(format!(
                "{} steps and {} fates; each packet needs one of each",
                steps.len(),
                lost.len()
            )));
        }
        if !steps.is_sorted() {
            return Err(PyValueError::new_err("the packets' steps must ascend"));
        }
        let lost: Vec<bool> = lost.into_iter().map(|fate| fate != 0).collect();
        Ok(py.detach(|| self.0.drop_probabilities(&steps, &lost)))
    }
}

/// The module.
#[pymodule]
fn weir_core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CaptureError", module.py().get_type::<CaptureError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Losses>()?;
    module.add_class::<Joined>()?;
    module.add_class::<LossStream>()?;
    module.add_class::<SegmentStream>()?;
    module.add_function(wrap_pyfunction!(read_losses, module)?)?;
    module.add_function(wrap_pyfunction!(stream_losses, module)?)?;
    module.add_function(wrap_pyfunction!(stream_segments, module)?)?;
    module.add_function(wrap_pyfunction!(read_acknowledged, module)?)?;
    module.add_function(wrap_pyfunction!(join_run, module)?)?;
    module.add_class::<TokenBucket>()?;
    Ok(())
}
