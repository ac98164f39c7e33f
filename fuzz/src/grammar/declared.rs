// SPDX-License-Identifier: Apache-2.0
//! What a generated program declares: headers with their fields, stacks, a union, arrays and calculations.

use serde_json::{Value, json};

use super::witness;
use crate::choices::Choices;

/// Widths around those at which the switch changes its arithmetic.
const WIDTHS: [u32; 28] = [
    1, 1, 2, 3, 4, 7, 8, 8, 8, 9, 12, 13, 16, 16, 16, 24, 32, 32, 33, 48, 57, 63, 64, 65, 72, 128,
    130, 192,
];

/// A width that a program may have.
pub fn width(choices: &mut Choices<'_>) -> u32 {
    choices.choice(WIDTHS).unwrap_or(8)
}

/// A field that holds a number.
#[derive(Debug, Clone)]
pub struct Field {
    pub header: String,
    pub name: String,
    pub width: u32,
    pub signed: bool,
}

impl Field {
    /// The pair by which tables name it.
    pub fn pair(&self) -> Value {
        json!([self.header, self.name])
    }

    /// The value that expressions read and assignments write.
    pub fn value(&self) -> Value {
        json!({"type": "field", "value": self.pair()})
    }
}

/// A header on the wire.
#[derive(Debug, Clone)]
pub struct Header {
    pub name: String,
    pub kind: String,
    pub fields: Vec<Field>,
    pub varbit: bool,
}

/// A stack of headers.
#[derive(Debug, Clone)]
pub struct Stack {
    pub name: String,
    pub size: usize,
    /// The fields of an element.
    pub fields: Vec<Field>,
}

/// An array of cells, or a calculation, by its name.
#[derive(Debug, Clone)]
pub struct Array {
    pub name: String,
    pub size: u64,
    pub width: u32,
}

/// Everything that a program's other parts may name.
#[derive(Debug, Default)]
pub struct Declared {
    /// No headers but simple ones and no profiles, so that more is known of the fields that a packet reads.
    pub plain: bool,
    /// Metadata and fields of headers, of stacks' elements too.
    pub fields: Vec<Field>,
    /// The fields of the program's own metadata.
    pub metadata: Vec<Field>,
    /// Headers that are extracted one by one.
    pub headers: Vec<Header>,
    pub stacks: Vec<Stack>,
    /// Names of headers that may be added and removed, of elements of stacks too.
    pub addable: Vec<String>,
    pub unions: Vec<String>,
    pub registers: Vec<Array>,
    pub counters: Vec<Array>,
    pub meters: Vec<Array>,
    pub calculations: Vec<String>,
    /// Numbers of the lists of fields, from 1.
    pub field_lists: usize,
    pub digests: usize,
    types: Vec<Value>,
    instances: Vec<Value>,
    stack_sections: Vec<Value>,
    union_sections: Vec<Value>,
}

/// The fields of v1model's standard metadata that programs write.
const WRITTEN: [(&str, u32); 5] = [
    ("egress_spec", 9),
    ("mcast_grp", 16),
    ("priority", 3),
    ("instance_type", 32),
    ("egress_rid", 16),
];

fn standard_metadata() -> Value {
    json!([
        ["ingress_port", 9, false],
        ["egress_spec", 9, false],
        ["egress_port", 9, false],
        ["instance_type", 32, false],
        ["packet_length", 32, false],
        ["enq_timestamp", 32, false],
        ["enq_qdepth", 19, false],
        ["deq_timedelta", 32, false],
        ["deq_qdepth", 19, false],
        ["ingress_global_timestamp", 48, false],
        ["egress_global_timestamp", 48, false],
        ["mcast_grp", 16, false],
        ["egress_rid", 16, false],
        ["checksum_error", 1, false],
        ["parser_error", 32, false],
        ["priority", 3, false],
        ["_padding", 3, false]
    ])
}

impl Declared {
    /// Chooses the declarations.
    pub fn new(choices: &mut Choices<'_>) -> Self {
        let mut declared = Self::default();
        declared.metadata(choices);
        for number in 0..choices.usize(1..4) {
            let kind = format!("t{number}");
            let fields = declared.header_type(choices, &kind, false);
            for copy in 0..choices.usize(1..3) {
                declared.header(
                    &format!("h{number}{}", ['a', 'b'][copy]),
                    &kind,
                    &fields,
                    false,
                );
            }
        }
        declared.plain = choices.bool();
        if !declared.plain && choices.bool() {
            let fields = declared.header_type(choices, "varying", true);
            declared.header("v0", "varying", &fields, true);
            declared.header("v1", "varying", &fields, true);
        }
        if !declared.plain && choices.u8(..3) > 0 {
            declared.stack(choices);
        }
        if !declared.plain && choices.bool() {
            declared.unions(choices);
        }
        declared.arrays(choices);
        declared
    }

    fn metadata(&mut self, choices: &mut Choices<'_>) {
        let own = |(number, width): (usize, u32), signed| Field {
            header: "scalars".to_owned(),
            name: format!("m{number}"),
            width,
            signed,
        };
        let count = choices.usize(2..9);
        let fields: Vec<Field> = (0..count)
            .map(|number| {
                let width = width(choices);
                own((number, width), width > 1 && choices.u8(..4) == 0)
            })
            .collect();
        let all = [&fields[..], &[witness::field()]].concat();
        self.types
            .push(json!({"name": "scalars_0", "id": 0, "fields": types_of(&all)}));
        self.types
            .push(json!({"name": "standard_metadata", "id": 1, "fields": standard_metadata()}));
        for (id, (name, kind)) in [
            ("scalars", "scalars_0"),
            ("standard_metadata", "standard_metadata"),
        ]
        .iter()
        .enumerate()
        {
            self.instances.push(json!({
                "name": name, "id": id, "header_type": kind, "metadata": true, "pi_omit": true
            }));
        }
        self.fields.extend(fields.iter().cloned());
        self.metadata = fields;
        self.fields.extend(WRITTEN.map(|(name, width)| Field {
            header: "standard_metadata".to_owned(),
            name: name.to_owned(),
            width,
            signed: false,
        }));
    }

    /// Adds a type of header: fields that fill whole bytes, for a varbit after the first of them.
    fn header_type(&mut self, choices: &mut Choices<'_>, kind: &str, varbit: bool) -> Vec<Field> {
        let mut fields = Vec::new();
        let mut bits = 0;
        let mut add = |width: u32, signed: bool| {
            fields.push(Field {
                header: String::new(),
                name: format!("f{}", fields.len()),
                width,
                signed,
            });
            bits += width;
        };
        if varbit {
            add(8, false);
        } else {
            for _ in 0..choices.usize(1..6) {
                let width = width(choices);
                add(width, width > 1 && choices.u8(..6) == 0);
            }
        }
        let padding = bits.next_multiple_of(8) - bits;
        if padding > 0 {
            fields.push(Field {
                header: String::new(),
                name: "pad".to_owned(),
                width: padding,
                signed: false,
            });
        }
        let mut listed = types_of(&fields);
        let mut described = json!({"name": kind, "id": self.types.len()});
        if varbit {
            listed.push(json!(["varied", "*"]));
            // Bytes of the whole header.
            described["max_length"] = json!(choices.u32(2..12));
        }
        described["fields"] = Value::from(listed);
        self.types.push(described);
        fields
    }

    fn header(&mut self, name: &str, kind: &str, fields: &[Field], varbit: bool) {
        let fields = self.instance(name, kind, fields);
        self.headers.push(Header {
            name: name.to_owned(),
            kind: kind.to_owned(),
            fields,
            varbit,
        });
    }

    /// Adds an instance of a type; its fields.
    fn instance(&mut self, name: &str, kind: &str, fields: &[Field]) -> Vec<Field> {
        self.instances.push(json!({
            "name": name, "id": self.instances.len(), "header_type": kind, "metadata": false,
            "pi_omit": true
        }));
        let fields: Vec<Field> = fields
            .iter()
            .map(|field| Field {
                header: name.to_owned(),
                ..field.clone()
            })
            .collect();
        self.fields.extend(fields.iter().cloned());
        self.addable.push(name.to_owned());
        fields
    }

    fn stack(&mut self, choices: &mut Choices<'_>) {
        let fields = self.header_type(choices, "element", false);
        for number in 0..choices.usize(1..3) {
            let (name, size) = (format!("s{number}"), choices.usize(1..4));
            let first = self.instances.len();
            for index in 0..size {
                self.instance(&format!("{name}[{index}]"), "element", &fields);
            }
            self.stack_sections.push(json!({
                "name": name, "id": number, "header_type": "element", "size": size,
                "header_ids": (first..first + size).collect::<Vec<_>>()
            }));
            let fields = fields.clone();
            self.stacks.push(Stack { name, size, fields });
        }
    }

    /// Two unions of one type.
    fn unions(&mut self, choices: &mut Choices<'_>) {
        let kinds = ["left", "right"];
        let types = kinds.map(|kind| self.header_type(choices, kind, false));
        for number in 0..2 {
            let name = format!("u{number}");
            let first = self.instances.len();
            for (kind, fields) in kinds.iter().zip(&types) {
                let member = format!("{name}.{kind}");
                self.header(&member, kind, fields, false);
            }
            self.union_sections.push(json!({
                "name": name, "id": number, "union_type": "union_t",
                "header_ids": [first, first + 1]
            }));
            self.unions.push(name);
        }
    }

    fn arrays(&mut self, choices: &mut Choices<'_>) {
        let some = |choices: &mut Choices<'_>, letter: &str| -> Vec<Array> {
            (0..choices.usize(..3))
                .map(|number| Array {
                    name: format!("{letter}{number}"),
                    size: choices.u64(1..10),
                    width: width(choices),
                })
                .collect()
        };
        self.registers = some(choices, "register");
        self.counters = some(choices, "counter");
        self.meters = some(choices, "meter");
        self.calculations = (0..choices.usize(..3))
            .map(|n| format!("calculation{n}"))
            .collect();
        self.field_lists = choices.usize(..3);
        self.digests = choices.usize(..2);
    }

    /// The number of a list of fields that a copy keeps; 0 is none.
    pub fn field_list(&self, choices: &mut Choices<'_>) -> usize {
        choices.usize(..=self.field_lists)
    }

    /// The sections of the program that hold these declarations, except the calculations.
    pub fn sections(&self, choices: &mut Choices<'_>) -> Value {
        let some_fields = |choices: &mut Choices<'_>, fields: &[Field]| -> Vec<Value> {
            let picked = (0..choices.usize(1..4)).filter_map(|_| choices.choice(fields));
            picked.map(Field::value).collect()
        };
        let field_lists: Vec<Value> = (1..=self.field_lists)
            .map(|id| {
                let elements = some_fields(choices, &self.metadata);
                json!({"id": id, "name": format!("fl{id}"), "elements": elements})
            })
            .collect();
        let learn_lists: Vec<Value> = (1..=self.digests)
            .map(|id| {
                let elements = some_fields(choices, &self.fields);
                json!({"id": id, "name": format!("digest{id}"), "elements": elements})
            })
            .collect();
        let units = ["bytes", "packets"];
        let meters = self.meters.iter().enumerate().map(|(id, meter)| {
            json!({"name": meter.name, "id": id, "is_direct": false, "size": meter.size,
                   "rate_count": 2, "type": units[id % 2]})
        });
        let counters = self.counters.iter().enumerate().map(|(id, counter)| {
            json!({"name": counter.name, "id": id, "is_direct": false, "size": counter.size})
        });
        let registers = self.registers.iter().enumerate().map(|(id, register)| {
            json!({"name": register.name, "id": id, "size": register.size,
                   "bitwidth": register.width})
        });
        let registers = registers.chain([witness::register(self.registers.len())]);
        json!({
            "header_types": self.types,
            "headers": self.instances,
            "header_stacks": self.stack_sections,
            "header_unions": self.union_sections,
            "field_lists": field_lists,
            "learn_lists": learn_lists,
            "meter_arrays": meters.collect::<Vec<_>>(),
            "counter_arrays": counters.collect::<Vec<_>>(),
            "register_arrays": registers.collect::<Vec<_>>(),
        })
    }
}

fn types_of(fields: &[Field]) -> Vec<Value> {
    let one = |field: &Field| json!([field.name, field.width, field.signed]);
    fields.iter().map(one).collect()
}
