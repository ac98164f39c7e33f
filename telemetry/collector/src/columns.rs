// SPDX-License-Identifier: Apache-2.0
//! The columns of `telemetry.parquet`: their schema, their encodings, and how rows are written to them.

use std::io::Write;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{BoolType, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::{
    SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter,
};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;

use crate::rows::{Batch, bit};

/// Version of the columns, stored in each file.
pub(crate) const SCHEMA_VERSION: &str = "1";

/// One column: its definition in Parquet's schema language, and how a batch's values are written to it.
struct Column {
    definition: &'static str,
    write: fn(&mut SerializedColumnWriter<'_>, &Batch) -> Result<usize, ParquetError>,
}

/// The columns, in order. Optional ones hold fields that a report may lack.
const COLUMNS: [Column; 23] = [
    Column {
        definition: "REQUIRED INT64 received_ns",
        write: |column, batch| plain::<Int64Type>(column, &batch.rows.received_ns, None),
    },
    Column {
        definition: "REQUIRED INT32 node_id (INTEGER(32, false))",
        write: |column, batch| int32(column, &batch.rows.node_id, None),
    },
    Column {
        definition: "REQUIRED INT32 hw_id (INTEGER(8, false))",
        write: |column, batch| int32(column, &batch.rows.hw_id, None),
    },
    Column {
        definition: "REQUIRED INT32 sequence (INTEGER(32, false))",
        write: |column, batch| int32(column, &batch.rows.sequence, None),
    },
    Column {
        definition: "REQUIRED BOOLEAN dropped",
        write: |column, batch| plain::<BoolType>(column, &batch.flags(bit::DROPPED), None),
    },
    Column {
        definition: "REQUIRED BOOLEAN congested",
        write: |column, batch| plain::<BoolType>(column, &batch.flags(bit::CONGESTED), None),
    },
    Column {
        definition: "REQUIRED BOOLEAN tracked",
        write: |column, batch| plain::<BoolType>(column, &batch.flags(bit::TRACKED), None),
    },
    Column {
        definition: "OPTIONAL INT32 queue_id (INTEGER(8, false))",
        write: |column, batch| {
            int32(
                column,
                &batch.rows.queue_id,
                Some(&batch.levels(bit::QUEUE_ID)),
            )
        },
    },
    Column {
        definition: "OPTIONAL INT32 queue_occupancy (INTEGER(32, false))",
        write: |column, batch| {
            int32(
                column,
                &batch.rows.queue_occupancy,
                Some(&batch.levels(bit::QUEUE)),
            )
        },
    },
    Column {
        definition: "OPTIONAL INT64 ingress_ns (INTEGER(64, false))",
        write: |column, batch| {
            plain::<Int64Type>(
                column,
                &batch.rows.ingress_ns,
                Some(&batch.levels(bit::INGRESS)),
            )
        },
    },
    Column {
        definition: "OPTIONAL INT64 egress_ns (INTEGER(64, false))",
        write: |column, batch| {
            plain::<Int64Type>(
                column,
                &batch.rows.egress_ns,
                Some(&batch.levels(bit::EGRESS)),
            )
        },
    },
    Column {
        definition: "OPTIONAL INT32 drop_reason (INTEGER(8, false))",
        write: |column, batch| {
            int32(
                column,
                &batch.rows.drop_reason,
                Some(&batch.levels(bit::DROP_REASON)),
            )
        },
    },
    Column {
        definition: "OPTIONAL INT32 policer (INTEGER(16, false))",
        write: |column, batch| {
            int32(
                column,
                &batch.rows.policer,
                Some(&batch.levels(bit::VERDICT)),
            )
        },
    },
    Column {
        definition: "OPTIONAL INT32 colour (INTEGER(8, false))",
        write: |column, batch| {
            int32(
                column,
                &batch.rows.colour,
                Some(&batch.levels(bit::VERDICT)),
            )
        },
    },
    Column {
        definition: "OPTIONAL INT32 wire_length (INTEGER(32, false))",
        write: |column, batch| {
            int32(
                column,
                &batch.rows.wire_length,
                Some(&batch.levels(bit::WIRE_LENGTH)),
            )
        },
    },
    Column {
        definition: "OPTIONAL INT32 packet_number (INTEGER(32, false))",
        write: |column, batch| {
            int32(
                column,
                &batch.rows.packet_number,
                Some(&batch.levels(bit::PACKET_NUMBER)),
            )
        },
    },
    Column {
        definition: "OPTIONAL INT32 queue_lost (INTEGER(32, false))",
        write: |column, batch| {
            int32(
                column,
                &batch.rows.queue_lost,
                Some(&batch.levels(bit::QUEUE_LOST)),
            )
        },
    },
    Column {
        definition: "OPTIONAL BYTE_ARRAY src (STRING)",
        write: |column, batch| {
            plain::<ByteArrayType>(column, &batch.addresses(0), Some(&batch.levels(bit::IP)))
        },
    },
    Column {
        definition: "OPTIONAL BYTE_ARRAY dst (STRING)",
        write: |column, batch| {
            plain::<ByteArrayType>(column, &batch.addresses(1), Some(&batch.levels(bit::IP)))
        },
    },
    Column {
        definition: "OPTIONAL INT32 src_port (INTEGER(16, false))",
        write: |column, batch| {
            int32(
                column,
                &batch.rows.src_port,
                Some(&batch.levels(bit::PORTS)),
            )
        },
    },
    Column {
        definition: "OPTIONAL INT32 dst_port (INTEGER(16, false))",
        write: |column, batch| {
            int32(
                column,
                &batch.rows.dst_port,
                Some(&batch.levels(bit::PORTS)),
            )
        },
    },
    Column {
        definition: "OPTIONAL INT32 protocol (INTEGER(8, false))",
        write: |column, batch| int32(column, &batch.rows.protocol, Some(&batch.levels(bit::IP))),
    },
    Column {
        definition: "REQUIRED BYTE_ARRAY inner",
        write: |column, batch| packets(column, batch),
    },
];

/// Columns whose values rarely repeat but are close to the previous one: their differences are stored.
const COUNTING: [&str; 5] = [
    "received_ns",
    "sequence",
    "ingress_ns",
    "egress_ns",
    "packet_number",
];
/// Columns with few values and long runs of each: plain and compressed, because a dictionary would look up each value.
const STEADY: [&str; 9] = [
    "node_id",
    "hw_id",
    "queue_id",
    "queue_occupancy",
    "drop_reason",
    "colour",
    "wire_length",
    "queue_lost",
    "protocol",
];
/// Columns whose minimum and maximum are of no use: no statistics.
const UNORDERED: [&str; 3] = ["src", "dst", "inner"];
/// The column with most of a file's bytes.
const PACKETS: &str = "inner";
/// Level of zstd for packets: the collector must keep up. Level 1 takes more than twice the time, for files that are
/// 1 % (payload that does not compress) to 11 % (a run's) smaller.
const PACKETS_LEVEL: i32 = -3;

/// Packets of one call of the Parquet writer.
const PACKETS_AT_ONCE: usize = 4096;

/// The schema of the files.
pub(crate) fn schema() -> Result<TypePtr, ParquetError> {
    let columns: String = COLUMNS
        .iter()
        .map(|column| format!("{};\n", column.definition))
        .collect();
    parse_message_type(&format!("message telemetry {{\n{columns}}}")).map(TypePtr::new)
}

/// The collector's name and version, in each file's metadata.
pub(crate) fn created_by() -> String {
    format!("weir-collector {}", env!("CARGO_PKG_VERSION"))
}

/// Encodings and compression of files that stay.
pub(crate) fn compact(key_values: &[KeyValue]) -> Result<WriterProperties, ParquetError> {
    let mut properties = common(key_values)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_column_compression(
            PACKETS.into(),
            Compression::ZSTD(ZstdLevel::try_new(PACKETS_LEVEL)?),
        )
        .set_column_dictionary_enabled(PACKETS.into(), false)
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for column in UNORDERED {
        properties =
            properties.set_column_statistics_enabled(column.into(), EnabledStatistics::None);
    }
    for column in COUNTING {
        properties = properties
            .set_column_dictionary_enabled(column.into(), false)
            .set_column_encoding(column.into(), Encoding::DELTA_BINARY_PACKED);
    }
    for column in STEADY {
        properties = properties.set_column_dictionary_enabled(column.into(), false);
    }
    Ok(properties.build())
}

/// Rows that wait for a row group, as a Parquet file of their own: quick to write, because most are written once more.
pub(crate) fn quick_file(rows: &Batch, key_values: &[KeyValue]) -> Result<Vec<u8>, ParquetError> {
    let properties = common(key_values)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema()?, properties.into())?;
    let mut group = file.next_row_group()?;
    write(&mut group, std::slice::from_ref(rows))?;
    group.close()?;
    file.into_inner()
}

fn common(key_values: &[KeyValue]) -> WriterPropertiesBuilder {
    WriterProperties::builder()
        // Only the limit in bytes applies.
        .set_data_page_row_count_limit(usize::MAX)
        .set_created_by(created_by())
        .set_key_value_metadata(Some(key_values.to_vec()))
}

/// Writes the columns of a row group.
pub(crate) fn write<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    batches: &[Batch],
) -> Result<(), ParquetError> {
    for column in &COLUMNS {
        if let Some(mut writer) = group.next_column()? {
            for batch in batches {
                (column.write)(&mut writer, batch)?;
            }
            writer.close()?;
        }
    }
    Ok(())
}

fn int32<T: Copy + Into<i32>>(
    column: &mut SerializedColumnWriter<'_>,
    values: &[T],
    levels: Option<&[i16]>,
) -> Result<usize, ParquetError> {
    let values: Vec<i32> = values.iter().map(|&value| value.into()).collect();
    plain::<Int32Type>(column, &values, levels)
}

/// Writes values that are already of the column's type.
fn plain<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<usize, ParquetError> {
    column.typed::<T>().write_batch(values, levels, None)
}

/// Writes the inner packets, some at a time: a value takes more memory than it has bytes.
fn packets(column: &mut SerializedColumnWriter<'_>, batch: &Batch) -> Result<usize, ParquetError> {
    let mut written = 0;
    while written < batch.len() {
        let rows = written..batch.len().min(written + PACKETS_AT_ONCE);
        written += plain::<ByteArrayType>(column, &batch.inner(rows), None)?;
    }
    Ok(written)
}
