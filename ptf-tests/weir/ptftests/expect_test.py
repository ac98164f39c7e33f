# SPDX-License-Identifier: Apache-2.0
import pytest

from weir.ptftests import expect

DOMAIN = 0x5745
OWN = [
    name
    for name, vector in expect.vectors().items()
    if vector.values.get("domain_id") == str(DOMAIN) and len(vector.payload) >= expect.HEADERS_BYTES
]


@pytest.mark.parametrize("name", OWN)
def test_a_vector_of_weirs_domain_is_decoded_to_its_values(name):
    vector = expect.vectors()[name]
    report = expect.decode(vector.payload)
    for field in expect.Report.__slots__:
        if field != "inner":
            assert int(getattr(report, field)) == int(vector.values.get(field, 0)), field
    assert len(report.inner) == int(vector.values["inner_bytes"])


def test_a_payload_with_a_wrong_fixed_field_is_no_report():
    payload = bytearray(expect.vectors()[OWN[0]].payload)
    payload[0] ^= 0x10
    with pytest.raises(expect.WrongReport, match="version"):
        expect.decode(bytes(payload))


def test_a_short_payload_is_no_report():
    with pytest.raises(expect.WrongReport, match="55 bytes"):
        expect.decode(bytes(55))


def test_the_specifications_frame_carries_its_vector():
    collector = expect.Endpoint("02:00:00:00:00:c0", "10.0.0.9", 32766)
    switch = expect.Endpoint("02:00:00:00:00:ee", "10.0.0.254", 32766)
    payload = expect.payload_of(expect.frames()["frame-of-the-ack"], switch, collector)
    assert payload == expect.vectors()["yellow-ack-66-rounded-up"].payload


def test_outer_headers_of_another_address_are_refused():
    frame = expect.frames()["frame-of-the-ack"]
    switch = expect.Endpoint("02:00:00:00:00:ee", "10.0.0.254", 32766)
    with pytest.raises(expect.WrongReport, match="outer headers"):
        expect.payload_of(frame, switch, switch)
