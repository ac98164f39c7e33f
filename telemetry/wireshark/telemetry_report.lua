-- SPDX-License-Identifier: Apache-2.0
-- Telemetry Report Format 2.0 with weir's domain, for Wireshark and tshark; docs/spec/telemetry-report.md has the format.
--
--   tshark -X lua_script:telemetry_report.lua -r capture.pcap -O telemetry_report
--
-- UDP port 32766 by default, else that of the preference. Reports that the specification tells readers to refuse get an
-- expert item with the specification's name for the error.

local report = Proto("telemetry_report", "Telemetry Report 2.0")
report.prefs.port = Pref.uint("UDP port", 32766, "Destination port of the reports")

local WEIR = 0x5745
local INT = 1
local TO_THE_END = 255

local rep_types = {[0] = "Inner Only", [1] = "INT", [2] = "IOAM"}
local in_types = {
    [0] = "None", [1] = "TLV", [2] = "Domain Specific Extension Data", [3] = "Ethernet", [4] = "IPv4", [5] = "IPv6",
}
local inner_dissectors = {[3] = "eth_withoutfcs", [4] = "ip", [5] = "ipv6"}
local colours = {[0] = "green", [1] = "yellow", [2] = "red"}
local drop_reasons = {
    [0] = "none", [51] = "queue", [70] = "policer", [72] = "not ECT",
    [101] = "cut Ethernet", [102] = "cut VLAN", [103] = "cut IPv4", [104] = "cut IPv4 options", [105] = "cut IPv6",
    [106] = "cut IPv6 extension", [107] = "cut transport", [110] = "IPv4 version", [111] = "IPv4 header length",
    [112] = "IPv4 length", [113] = "IPv4 overlap", [114] = "IPv6 version", [115] = "IPv6 length",
    [116] = "IPv6 overlap",
}

local f = {}
local function field(make, name, title, ...)
    f[name] = make("telemetry_report." .. name, title, ...)
end

field(ProtoField.uint8, "version", "Version", base.DEC, nil, 0xf0)
field(ProtoField.uint32, "hw_id", "Hardware id", base.DEC, nil, 0x0fc00000)
field(ProtoField.uint32, "sequence", "Sequence", base.DEC, nil, 0x003fffff)
field(ProtoField.uint32, "node_id", "Node id", base.DEC)
field(ProtoField.uint8, "rep_type", "RepType", base.DEC, rep_types, 0xf0)
field(ProtoField.uint8, "inner_type", "InType", base.DEC, in_types, 0x0f)
field(ProtoField.uint8, "report_length", "Report length (words)", base.DEC)
field(ProtoField.uint8, "metadata_length", "Metadata length (words)", base.DEC)
field(ProtoField.bool, "dropped", "D: dropped", 8, nil, 0x80)
field(ProtoField.bool, "congested", "Q: congested queue", 8, nil, 0x40)
field(ProtoField.bool, "tracked", "F: tracked flow", 8, nil, 0x20)
field(ProtoField.bool, "intermediate", "I: intermediate report", 8, nil, 0x10)
field(ProtoField.uint16, "metadata_bits", "RepMdBits", base.HEX)
field(ProtoField.uint16, "domain_id", "Domain", base.HEX, {[0] = "default", [WEIR] = "weir"})
field(ProtoField.uint16, "domain_bits", "DSMdBits", base.HEX)
field(ProtoField.uint16, "domain_status", "DSMdstatus", base.HEX)
field(ProtoField.uint16, "ingress_interface", "Ingress interface", base.DEC)
field(ProtoField.uint16, "egress_interface", "Egress interface", base.DEC)
field(ProtoField.uint32, "hop_latency", "Hop latency", base.DEC)
field(ProtoField.uint8, "queue_id", "Queue", base.DEC)
field(ProtoField.uint24, "queue_occupancy", "Queue occupancy", base.DEC)
field(ProtoField.uint64, "ingress_ns", "Ingress time (ns)", base.DEC)
field(ProtoField.uint64, "egress_ns", "Egress time (ns)", base.DEC)
field(ProtoField.uint32, "logical_ingress_interface", "Logical ingress interface", base.DEC)
field(ProtoField.uint32, "logical_egress_interface", "Logical egress interface", base.DEC)
field(ProtoField.uint32, "tx_utilization", "Egress port utilization", base.DEC)
field(ProtoField.uint8, "buffer_id", "Buffer", base.DEC)
field(ProtoField.uint24, "buffer_occupancy", "Buffer occupancy", base.DEC)
field(ProtoField.uint8, "drop_queue_id", "Drop queue", base.DEC)
field(ProtoField.uint8, "drop_reason", "Drop reason", base.DEC, drop_reasons)
field(ProtoField.uint16, "policer", "Policer", base.DEC)
field(ProtoField.uint8, "colour", "Colour", base.DEC, colours)
field(ProtoField.uint32, "wire_length", "Length on the wire (bytes)", base.DEC)
field(ProtoField.uint32, "packet_number", "Packet number in its policer", base.DEC)
field(ProtoField.uint32, "queue_lost", "Packets lost in the queue before this one", base.DEC)
field(ProtoField.bytes, "reserved", "Reserved metadata")
field(ProtoField.bytes, "domain_data", "Domain metadata")
field(ProtoField.bytes, "inner", "Inner contents")
report.fields = f

local errors = {}
for _, name in ipairs({"truncated", "version", "rep_type", "metadata_length", "report_length"}) do
    errors[name] = ProtoExpert.new("telemetry_report.error." .. name, "not a report weir reads: " .. name,
        expert.group.MALFORMED, expert.severity.ERROR)
end
report.experts = errors

-- Each bit of RepMdBits: its words, and its fields as {name, bytes}. Bits not listed are reserved: one word.
local baseline = {
    [1] = {1, {{"ingress_interface", 2}, {"egress_interface", 2}}},
    [2] = {1, {{"hop_latency", 4}}},
    [3] = {1, {{"queue_id", 1}, {"queue_occupancy", 3}}},
    [4] = {2, {{"ingress_ns", 8}}},
    [5] = {2, {{"egress_ns", 8}}},
    [6] = {2, {{"logical_ingress_interface", 4}, {"logical_egress_interface", 4}}},
    [7] = {1, {{"tx_utilization", 4}}},
    [8] = {1, {{"buffer_id", 1}, {"buffer_occupancy", 3}}},
    [15] = {1, {{"drop_queue_id", 1}, {"drop_reason", 1}}},
}
local weir_domain = {
    [0] = {1, {{"policer", 2}, {"colour", 1}}},
    [1] = {1, {{"wire_length", 4}}},
    [2] = {1, {{"packet_number", 4}}},
    [3] = {1, {{"queue_lost", 4}}},
}
local reserved = {1, {{"reserved", 4}}}

local function is_set(bits, n)
    return bit.band(bits, bit.rshift(0x8000, n)) ~= 0
end

-- Words of the set bits of a map.
local function words(bits, last, map, default)
    local sum = 0
    for n = 0, last do
        if is_set(bits, n) then
            sum = sum + (map[n] or default)[1]
        end
    end
    return sum
end

-- Adds the fields of the set bits; returns the offset after them.
local function add_metadata(tree, buffer, at, bits, last, map, default)
    for n = 0, last do
        if is_set(bits, n) then
            local entry = map[n] or default
            local place = at
            for _, part in ipairs(entry[2]) do
                tree:add(f[part[1]], buffer(place, part[2]))
                place = place + part[2]
            end
            at = at + 4 * entry[1]
        end
    end
    return at
end

-- Dissects the report at `at`; returns the offset of the next one, or nil.
local function dissect_report(buffer, at, pinfo, tree)
    local function refuse(name)
        tree:add_proto_expert_info(errors[name])
        return nil
    end
    local left = buffer:len() - at
    if left < 4 then
        return refuse("truncated")
    end
    local available = left - 4
    local rep_type = bit.rshift(buffer(at, 1):uint(), 4)
    local inner_type = bit.band(buffer(at, 1):uint(), 0x0f)
    local report_words, metadata_words = buffer(at + 1, 1):uint(), buffer(at + 2, 1):uint()
    local stated = 4 * report_words
    local length = stated
    -- Fewer than four bytes after a report cannot be another report and belong to it.
    if report_words == TO_THE_END or stated + 4 > available then
        length = available
    end
    local item = tree:add(report, buffer(at, 4 + length), "Report")
    item:add(f.rep_type, buffer(at, 1))
    item:add(f.inner_type, buffer(at, 1))
    item:add(f.report_length, buffer(at + 1, 1))
    item:add(f.metadata_length, buffer(at + 2, 1))
    for _, flag in ipairs({"dropped", "congested", "tracked", "intermediate"}) do
        item:add(f[flag], buffer(at + 3, 1))
    end
    if rep_type ~= INT then
        return refuse("rep_type")
    end
    if report_words ~= TO_THE_END and report_words < 2 + metadata_words then
        return refuse("report_length")
    end
    if length < 8 + 4 * metadata_words then
        return refuse("truncated")
    end
    local metadata_bits, domain = buffer(at + 4, 2):uint(), buffer(at + 6, 2):uint()
    local domain_bits = buffer(at + 8, 2):uint()
    item:add(f.metadata_bits, buffer(at + 4, 2))
    item:add(f.domain_id, buffer(at + 6, 2))
    item:add(f.domain_bits, buffer(at + 8, 2))
    item:add(f.domain_status, buffer(at + 10, 2))
    local needed = words(metadata_bits, 15, baseline, reserved)
    if domain == WEIR then
        needed = needed + words(domain_bits, 3, weir_domain)
    end
    if metadata_words < needed then
        return refuse("metadata_length")
    end
    local place = add_metadata(item, buffer, at + 12, metadata_bits, 15, baseline, reserved)
    if domain == WEIR then
        place = add_metadata(item, buffer, place, domain_bits, 3, weir_domain)
    end
    local inner = at + 12 + 4 * metadata_words
    if inner > place then
        item:add(f.domain_data, buffer(place, inner - place))
    end
    local next_report = at + 4 + length
    if next_report > inner then
        item:add(f.inner, buffer(inner, next_report - inner))
        local dissector = inner_dissectors[inner_type]
        if dissector then
            -- The inner packet is cut on purpose: an error in it must not end the dissection of the report.
            pcall(function()
                Dissector.get(dissector):call(buffer(inner, next_report - inner):tvb(), pinfo, item)
            end)
        end
    end
    return next_report
end

function report.dissector(buffer, pinfo, root)
    local tree = root:add(report, buffer(), "Telemetry Report 2.0")
    if buffer:len() < 8 then
        tree:add_proto_expert_info(errors.truncated)
        return buffer:len()
    end
    tree:add(f.version, buffer(0, 1))
    if bit.rshift(buffer(0, 1):uint(), 4) ~= 2 then
        tree:add_proto_expert_info(errors.version)
        return buffer:len()
    end
    tree:add(f.hw_id, buffer(0, 4))
    tree:add(f.sequence, buffer(0, 4))
    tree:add(f.node_id, buffer(4, 4))
    local summary = string.format("node %u sequence %u", buffer(4, 4):uint(),
        bit.band(buffer(0, 4):uint(), 0x003fffff))
    local at = 8
    repeat
        at = dissect_report(buffer, at, pinfo, tree)
    until at == nil or at >= buffer:len()
    pinfo.cols.protocol = "TELEMETRY"
    pinfo.cols.info = summary
    return buffer:len()
end

local registered
local function register()
    local ports = DissectorTable.get("udp.port")
    if registered then
        ports:remove(registered, report)
    end
    registered = report.prefs.port
    ports:add(registered, report)
end

report.prefs_changed = register
register()
