// SPDX-License-Identifier: Apache-2.0
//! Telemetry Report Format 2.0 as weir uses it, specified in `docs/spec/telemetry-report.md`.
//!
//! ```
//! use weir_report::{Datagram, WeirReport, colour, drop_reason};
//!
//! let report = WeirReport {
//!     node_id: 1,
//!     sequence: 7,
//!     dropped: true,
//!     drop_reason: drop_reason::POLICER,
//!     colour: colour::RED,
//!     wire_length: 1514,
//!     inner: &[0; 128],
//!     ..WeirReport::default()
//! };
//! let mut payload = Vec::new();
//! report.encode(&mut payload)?;
//!
//! let datagram = Datagram::parse(&payload)?;
//! assert_eq!(datagram.group().sequence, 7);
//! for report in datagram.reports() {
//!     assert_eq!(report?.inner.len(), 128);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout
//!
//! - `format`: widths, lengths and code points, one constant each
//! - `decode`: [`Datagram`] and the [`Report`]s in it, any metadata
//! - `metadata`: [`Baseline`] and [`Domain`], the two optional blocks of a report
//! - `encode`: [`WeirReport`], exactly what weir's pipeline emits
//! - `outer`: [`Outer`], the Ethernet, IPv4 and UDP headers around a report
//! - `error`: [`ReportError`] and [`EncodeError`]

mod decode;
mod encode;
mod error;
mod format;
mod metadata;
mod outer;

pub use decode::{Datagram, GroupHeader, InnerType, Report, Reports};
pub use encode::WeirReport;
pub use error::{EncodeError, ReportError};
pub use format::{
    SEQUENCE_MODULUS, UDP_PORT, WEIR_DOMAIN_ID, WEIR_HEADERS_BYTES, colour, drop_reason,
};
pub use metadata::{
    Baseline, Domain, DropCause, Interfaces, Occupancy, PolicerVerdict, WeirMetadata,
};
pub use outer::Outer;
