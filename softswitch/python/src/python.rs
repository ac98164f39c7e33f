// SPDX-License-Identifier: Apache-2.0
//! Classes and conversions; `weir_softswitch.pyi` documents them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use prost::Message as _;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use tonic::{Code, Status};
use weir_dataplane::{Port, SwitchConfig};
use weir_engine::engine::{Event, PastError};
use weir_engine::node::NodeConfig;
use weir_engine::node::failure::Failure;
use weir_switch::links::port::PortSpec;
use weir_switch::virtual_time::VirtualSwitch;

create_exception!(
    weir_softswitch,
    RequestError,
    PyException,
    "A refused P4Runtime request: code, message and details of its status."
);

fn request_error(py: Python<'_>, code: Code, message: &str, details: &[u8]) -> PyErr {
    let raised = RequestError::new_err(message.to_owned());
    let value = raised.value(py);
    let attributes = value
        .setattr("code", code as i32)
        .and_then(|()| value.setattr("message", message))
        .and_then(|()| value.setattr("details", PyBytes::new(py, details)));
    attributes.err().unwrap_or(raised)
}

fn refused(py: Python<'_>, status: &Status) -> PyErr {
    request_error(py, status.code(), status.message(), status.details())
}

fn failed(py: Python<'_>, failure: &Failure) -> PyErr {
    request_error(py, failure.code, &failure.message, &[])
}

fn past(error: PastError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn decode<M: prost::Message + Default>(what: &str, bytes: &[u8]) -> PyResult<M> {
    M::decode(bytes)
        .map_err(|error| PyValueError::new_err(format!("not a serialized {what}: {error}")))
}

/// A frame that the switch sent.
#[pyclass(frozen, get_all, module = "weir_softswitch")]
struct Frame {
    time_ns: u64,
    port: Port,
    frame: Py<PyBytes>,
}

#[pymethods]
impl Frame {
    fn __repr__(&self, py: Python<'_>) -> String {
        let bytes = self.frame.as_bytes(py).len();
        format!(
            "Frame(time_ns={}, port={}, {bytes} bytes)",
            self.time_ns, self.port
        )
    }
}

/// A message for the controller.
#[pyclass(frozen, get_all, module = "weir_softswitch")]
struct Message {
    time_ns: u64,
    serialized: Py<PyBytes>,
}

fn events(py: Python<'_>, switch: &mut VirtualSwitch) -> PyResult<Vec<Py<PyAny>>> {
    let object = |event| match event {
        Event::Frame {
            time_ns,
            port,
            frame,
        } => {
            let frame = PyBytes::new(py, &frame).unbind();
            let frame = Frame {
                time_ns,
                port,
                frame,
            };
            Ok(Py::new(py, frame)?.into_any())
        }
        Event::Message { time_ns, message } => {
            let serialized = PyBytes::new(py, &message.encode_to_vec()).unbind();
            let message = Message {
                time_ns,
                serialized,
            };
            Ok(Py::new(py, message)?.into_any())
        }
    };
    switch
        .dataplane
        .take_events()
        .into_iter()
        .map(object)
        .collect()
}

/// A switch in virtual time.
#[pyclass(frozen, module = "weir_softswitch")]
struct Switch {
    switch: Mutex<VirtualSwitch>,
}

impl Switch {
    fn lock(&self) -> MutexGuard<'_, VirtualSwitch> {
        self.switch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Switch {
    #[new]
    #[pyo3(signature = (ports, *, seed, cpu_port, drop_port, device_id))]
    fn new(
        ports: BTreeMap<Port, String>,
        seed: u64,
        cpu_port: Port,
        drop_port: Port,
        device_id: u64,
    ) -> PyResult<Self> {
        let mut configs = BTreeMap::new();
        for (number, options) in ports {
            // The options of `weir-switch --port`, without the interface.
            let comma = if options.is_empty() { "" } else { "," };
            let spec = format!("{number}=virtual{comma}{options}");
            let spec: PortSpec = spec
                .parse()
                .map_err(|error| PyValueError::new_err(format!("port {number}: {error}")))?;
            for (taken, role) in [(cpu_port, "CPU"), (drop_port, "drop")] {
                if number == taken {
                    return Err(PyValueError::new_err(format!(
                        "port {number} is the {role} port; give the port another number"
                    )));
                }
            }
            configs.insert(number, spec.config);
        }
        let config = NodeConfig {
            switch: SwitchConfig {
                seed,
                drop_port,
                ..SwitchConfig::default()
            },
            one_of_several: false,
            cpu_port: Some(cpu_port),
            ports: configs,
        };
        Ok(Self {
            switch: Mutex::new(VirtualSwitch::new(config, device_id)?),
        })
    }

    #[getter]
    fn now_ns(&self) -> u64 {
        self.lock().dataplane.now_ns()
    }

    #[getter]
    fn next_event_ns(&self) -> Option<u64> {
        self.lock().dataplane.next_event_ns()
    }

    fn process(
        &self,
        py: Python<'_>,
        port: Port,
        frame: &[u8],
        time_ns: u64,
    ) -> PyResult<Vec<Py<PyAny>>> {
        let mut switch = self.lock();
        switch
            .dataplane
            .receive(port, frame, time_ns)
            .map_err(past)?;
        events(py, &mut switch)
    }

    fn process_batch(
        &self,
        py: Python<'_>,
        packets: Vec<(Port, PyBackedBytes, u64)>,
    ) -> PyResult<Vec<Py<PyAny>>> {
        let mut switch = self.lock();
        // Checked first, so that a wrong time does not change the switch.
        let mut now_ns = switch.dataplane.now_ns();
        for (_, _, asked_ns) in &packets {
            if *asked_ns < now_ns {
                return Err(past(PastError {
                    asked_ns: *asked_ns,
                    now_ns,
                }));
            }
            now_ns = *asked_ns;
        }
        for (port, frame, time_ns) in &packets {
            switch
                .dataplane
                .receive(*port, frame, *time_ns)
                .map_err(past)?;
        }
        events(py, &mut switch)
    }

    fn run_until(&self, py: Python<'_>, time_ns: u64) -> PyResult<Vec<Py<PyAny>>> {
        let mut switch = self.lock();
        switch.dataplane.run_until(time_ns).map_err(past)?;
        events(py, &mut switch)
    }

    fn write(&self, py: Python<'_>, request: &[u8]) -> PyResult<()> {
        let request = decode("p4.v1.WriteRequest", request)?;
        let written = self.lock().write(request);
        written.map_err(|status| refused(py, &status))
    }

    fn read<'py>(&self, py: Python<'py>, request: &[u8]) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let request = decode("p4.v1.ReadRequest", request)?;
        let read = self.lock().read(request);
        let responses = read.map_err(|status| refused(py, &status))?;
        let responses = responses.iter();
        Ok(responses
            .map(|response| PyBytes::new(py, &response.encode_to_vec()))
            .collect())
    }

    fn set_pipeline(&self, py: Python<'_>, request: &[u8]) -> PyResult<()> {
        let request = decode("p4.v1.SetForwardingPipelineConfigRequest", request)?;
        let set = self.lock().set_pipeline(request);
        set.map_err(|status| refused(py, &status))
    }

    fn get_pipeline<'py>(&self, py: Python<'py>, request: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let request = decode("p4.v1.GetForwardingPipelineConfigRequest", request)?;
        let config = self.lock().get_pipeline(request);
        let config = config.map_err(|status| refused(py, &status))?;
        Ok(PyBytes::new(py, &config.encode_to_vec()))
    }

    fn capabilities<'py>(&self, py: Python<'py>, request: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let request = decode("p4.v1.CapabilitiesRequest", request)?;
        let answer = self.lock().capabilities(request);
        let answer = answer.map_err(|status| refused(py, &status))?;
        Ok(PyBytes::new(py, &answer.encode_to_vec()))
    }

    fn send(&self, py: Python<'_>, message: &[u8]) -> PyResult<Vec<Py<PyAny>>> {
        let message = decode("p4.v1.StreamMessageRequest", message)?;
        let mut switch = self.lock();
        switch
            .dataplane
            .send(&message)
            .map_err(|failure| failed(py, &failure))?;
        events(py, &mut switch)
    }

    fn stats(&self) -> PyResult<String> {
        self.lock()
            .stats_json()
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn port_stats<'py>(&self, py: Python<'py>, port: Port) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.lock().dataplane.core.node.port_stats(port);
        let counts = PyDict::new(py);
        counts.set_item("rx_packets", stats.rx_packets)?;
        counts.set_item("rx_bytes", stats.rx_bytes)?;
        counts.set_item("tx_packets", stats.tx_packets)?;
        counts.set_item("tx_bytes", stats.tx_bytes)?;
        counts.set_item("queue_drops", stats.queue_drops)?;
        counts.set_item("queue_drop_bytes", stats.queue_drop_bytes)?;
        counts.set_item("queued_packets", stats.queued_packets)?;
        counts.set_item("queued_bytes", stats.queued_bytes)?;
        counts.set_item("in_flight", stats.in_flight)?;
        Ok(counts)
    }
}

/// The Python module.
#[pymodule]
fn weir_softswitch(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("RequestError", module.py().get_type::<RequestError>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Frame>()?;
    module.add_class::<Message>()?;
    module.add_class::<Switch>()?;
    Ok(())
}
