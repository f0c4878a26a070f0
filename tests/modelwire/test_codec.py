"""Bytes to messages and back: exact for what is valid, one kind of fault for everything else."""

import contextlib
import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from modelwire.codec import MAX_ENTRIES, MAX_ITEMS, MAX_MAP_ENTRIES, MAX_NESTED, MAX_PARTS, Codec, DecodeFault
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import KINDS, ChatMessage, DecodeConfig, Hello, Text, TokenIds, Tokenize, Tokens, Turn
from modelwire.protocol import MODELD

CODEC = MODELD.codec()
GOLDEN: dict[str, str] = json.loads((Path(__file__).parent / "golden_v1.json").read_text())
EARLIER: dict[str, str] = json.loads((Path(__file__).parent / "golden_v1_earlier.json").read_text())
TURN: dict[str, Any] = {"v": 1, "op": "7", "kind": "turn", "session": "s", "prefix": [{"text": "a"}]}


def fault_of(fields: Any) -> DecodeFault:
    with pytest.raises(DecodeFault) as caught:
        CODEC.decode(fields if isinstance(fields, bytes) else msgpack.packb(fields))
    return caught.value


def decode(**fields: Any) -> Any:
    return CODEC.decode(msgpack.packb({**TURN, **fields})).message


def test_every_kind_has_golden_bytes() -> None:
    assert GOLDEN.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_of_version_1_are_what_they_always_were(kind: str) -> None:
    data = bytes.fromhex(GOLDEN[kind])
    envelope = CODEC.decode(data)
    assert type(envelope.message) is KINDS[kind]
    assert Codec(KINDS).encode(envelope.op, envelope.message) == data


@pytest.mark.parametrize("kind", KINDS)
def test_requests_leave_out_what_is_as_its_default_says_and_replies_leave_out_nothing(kind: str) -> None:
    envelope = CODEC.decode(bytes.fromhex(GOLDEN[kind]))
    data = CODEC.encode(envelope.op, envelope.message)
    assert CODEC.decode(data) == envelope
    if KINDS[kind] not in MODELD.requests:
        assert data.hex() == GOLDEN[kind]


def test_a_request_on_the_wire_has_what_was_said_and_no_more() -> None:
    turn = Turn(session="s", prefix=(Text(text="a"),), decode=DecodeConfig(max_tokens=3))
    assert msgpack.unpackb(CODEC.encode("7", turn)) == {**TURN, "decode": {"max_tokens": 3}}


@pytest.mark.parametrize("kind", EARLIER)
def test_bytes_from_before_a_field_was_added_are_still_read(kind: str) -> None:
    """What has come since is as its default says."""
    assert CODEC.decode(bytes.fromhex(EARLIER[kind])) == CODEC.decode(bytes.fromhex(GOLDEN[kind]))


def test_unknown_fields_are_ignored_on_every_level() -> None:
    assert decode(later=1, decode={"later": [1]}, prefix=[{"text": "a", "later": {}}]) == decode()


def test_fields_with_defaults_may_be_left_out() -> None:
    assert decode() == Turn(session="s", prefix=(Text(text="a"),))
    assert decode(prefix=[{"role": "user", "content": "q"}]).prefix == (ChatMessage(role="user", content="q"),)


@pytest.mark.parametrize(
    "wrong",
    [
        {"session": 1},
        {"session": None},
        {"session": b"s"},
        {"speculative": 1},
        {"deadline_ms": True},
        {"deadline_ms": 1.0},
        {"deadline_ms": 2**63},
        {"deadline_ms": "1"},
        {"lane": 3},
        {"prefix": None},
        {"prefix": "abc"},
        {"prefix": {"text": "a"}},
        {"prefix": ["a"]},
        {"prefix": [{}]},
        {"prefix": [{"text": "a", "role": "user", "content": "b"}]},
        {"prefix": [{"role": "user"}]},
        {"prefix": [{"role": "tool", "content": "b"}]},
        {"prefix": [{"role": ["user"], "content": "b"}]},
        {"prefix": [{"text": "a", "special": 0}]},
        {"decode": []},
        {"decode": None},
        {"decode": {"stop": "abc"}},
        {"decode": {"stop": [1]}},
        {"decode": {"max_tokens": True}},
        {"decode": {"temperature": math.nan}},
        {"decode": {"temperature": math.inf}},
        {"decode": {"temperature": "0"}},
        {"decode": {"top_p": False}},
    ],
)
def test_a_value_that_does_not_fit_is_malformed_and_names_its_operation(wrong: dict[str, Any]) -> None:
    fault = fault_of({**TURN, **wrong})
    assert fault.code == ErrorCode.MALFORMED
    assert fault.op == "7"
    assert next(iter(wrong)) in fault.message


@pytest.mark.parametrize("reason", ["elsewhere", 3, ["end"], None])
def test_an_unknown_reason_is_malformed(reason: Any) -> None:
    assert fault_of({"v": 1, "op": "1", "kind": "done", "reason": reason}).code == ErrorCode.MALFORMED


@pytest.mark.parametrize("ids", [[-1], [2**31], [True], [1.0], "ab", {"0": 1}, [[1]]])
def test_ids_are_a_list_of_integers_that_a_vocabulary_can_have(ids: Any) -> None:
    assert fault_of({"v": 1, "op": "1", "kind": "ids", "ids": ids}).code == ErrorCode.MALFORMED


def test_a_number_may_be_sent_as_an_integer() -> None:
    temperature = decode(decode={"temperature": 1}).decode.temperature
    assert type(temperature) is float


@pytest.mark.parametrize("op", [None, "", "x" * 65, 5, b"1", ["1"]])
def test_an_op_id_is_a_short_text(op: Any) -> None:
    fault = fault_of({**TURN, "op": op})
    assert (fault.code, fault.op) == (ErrorCode.MALFORMED, "")


@pytest.mark.parametrize("version", [None, 0, 2, "1", True, 1.0, [[[]]]])
def test_another_version_is_refused_by_name(version: Any) -> None:
    assert fault_of({**TURN, "v": version}).code == ErrorCode.WRONG_VERSION


@pytest.mark.parametrize("kind", [None, "", "no_such", 1, ["turn"], {"a": 1}])
def test_an_unknown_kind_is_an_error(kind: Any) -> None:
    assert fault_of({**TURN, "kind": kind}).code == ErrorCode.UNKNOWN_KIND


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x81", b"\x93\x01\x02\x03", b"\xff", b"\xa1\xff", b"\x80\x80"])
def test_what_is_no_map_of_msgpack_is_malformed(data: bytes) -> None:
    assert fault_of(data).code == ErrorCode.MALFORMED


def test_a_key_that_comes_twice_is_malformed_on_every_level() -> None:
    twice = b"\x82\xa1a\x01\xa1a\x02"
    assert fault_of(twice).code == ErrorCode.MALFORMED
    assert fault_of(b"\x81\xa1b" + twice).code == ErrorCode.MALFORMED


def test_a_fault_never_quotes_what_a_prompt_says() -> None:
    secret = "SECRET"
    for wrong in (
        {"prefix": [{"role": secret, "content": secret}]},
        {"prefix": [secret]},
        {"prefix": [{"text": secret, "special": secret}]},
        {"session": [secret]},
        {"decode": {"seed": secret}},
    ):
        assert secret not in fault_of({**TURN, **wrong}).message
    with pytest.raises(WireError) as caught:
        CODEC.encode("1", Tokenize(prompt=(Text(text=f"{secret}\ud800"),)))
    assert secret not in caught.value.message


def test_text_that_is_not_unicode_cannot_be_sent_and_the_codec_still_works_after_it() -> None:
    with pytest.raises(WireError, match="not valid Unicode"):
        CODEC.encode("1", Hello(client="\udcff"))
    assert CODEC.decode(CODEC.encode("1", Hello(client="é"))).message == Hello(client="é")


def test_the_size_limit_holds_in_both_directions() -> None:
    small = Codec(KINDS, max_bytes=100)
    with pytest.raises(WireError) as caught:
        small.encode("1", Tokens(text="x" * 100))
    assert caught.value.code == ErrorCode.TOO_LARGE
    with pytest.raises(DecodeFault) as refused:
        small.decode(b"\x00" * 101)
    assert refused.value.code == ErrorCode.TOO_LARGE


def test_the_operation_of_what_is_too_large_is_known_where_it_stands_at_the_beginning() -> None:
    small = Codec(KINDS, max_bytes=2000)
    long = "x" * 2001
    for head, op in (
        (b"\x84\xa1v\x01\xa2op\xa17\xa4kind\xa6tokens\xa4text", "7"),
        (b"\x84\xa4kind\xa6tokens\xa5later\x91\xc0\xa2op\xa17\xa4text", "7"),
        (b"\x82\xa4text" + msgpack.packb(long) + b"\xa2op\xa17", ""),  # behind what is not looked at
        (b"\x82\xa2op\xa0", ""),
        (b"\x82\xa2op\x07", ""),
        (b"\x82\xa2op\xd9\x41" + b"y" * 65, ""),
        (b"\x81\xa4text\xdd\xff\xff\xff\xff", ""),
        (b"\xdf\xff\xff\xff\xff", ""),
        (b"\xdd\xff\xff\xff\xff", ""),
        (b"\x91" * 3000, ""),
        (b"\xc1", ""),
    ):
        with pytest.raises(DecodeFault) as refused:
            small.decode(head + msgpack.packb(long))
        assert (refused.value.code, refused.value.op) == (ErrorCode.TOO_LARGE, op)


def test_a_long_list_of_ids_is_the_same_after_the_wire() -> None:
    ids = tuple(range(100_000))
    assert CODEC.decode(CODEC.encode("1", TokenIds(ids=ids))).message.ids == ids


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd\xff\xff\xff\xff",  # a list, a map, a text and bytes of four thousand millions
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x91" * 5_000,
        b"\x81\xa1a" * 5_000,
        b"\x83\xa2op\xa11\xa1v" + b"\x91" * 900 + b"\x01\xa4kind\xa1a",
        b"\x83\xa1v\x01\xa2op\xa11\xa4kind" + b"\x91" * 900 + b"\x01",
        b"\xdc\x13\x88" * 5_000,
    ],
)
def test_announced_lengths_and_depth_cost_neither_memory_nor_another_exception(data: bytes) -> None:
    tracemalloc.start()
    try:
        fault_of(data)
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()


MANY, SOME = 20_000, 4096


@pytest.mark.parametrize(
    ("kind", "fields", "path"),
    [
        ("turn", {"prefix": [0] * SOME}, "turn.prefix[0]"),
        ("turn", {"suffix": [{"text": "a"}, *[{}] * (SOME - 1)]}, "turn.suffix[1]"),
        ("turn", {"decode": {"stop": [0] * MANY}}, "turn.decode.stop[0]"),
        ("figures", {"figures": {str(index): "x" for index in range(SOME)}}, "figures.figures[0]"),
        ("description", {"capabilities": {str(index): 0 for index in range(SOME)}}, "description.capabilities[0]"),
    ],
)
def test_of_a_long_list_or_map_the_first_item_that_does_not_fit_is_told_and_the_others_cost_nothing(
    kind: str, fields: dict[str, Any], path: str
) -> None:
    data = msgpack.packb({**msgpack.unpackb(bytes.fromhex(GOLDEN[kind])), **fields})
    tracemalloc.start()
    try:
        fault = fault_of(data)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
    assert fault.message.endswith(f"@ {path}")
    assert ";" not in fault.message


KEYS = {f"k{index}": None for index in range(4000)}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"later": [{}] * MAX_NESTED}, "at most 10000 maps and lists"),
        ({"later": [[]] * MAX_NESTED}, "at most 10000 maps and lists"),
        ({"later": [KEYS] * 17}, "at most 65536 entries"),
        ({"later": [[None] * (MAX_ITEMS // 2)] * 3}, "at most 1048576 items"),
    ],
)
def test_a_message_that_holds_too_much_is_given_up_while_it_is_read_and_its_operation_is_named(
    more: dict[str, Any], says: str
) -> None:
    fault = fault_of({**TURN, **more})
    assert (fault.code, fault.op) == (ErrorCode.TOO_LARGE, "7")
    assert says in fault.message


def test_of_a_message_that_holds_too_much_no_more_is_built_than_it_may_hold() -> None:
    data = msgpack.packb({**TURN, "prefix": [{"role": "user", "content": ""}] * 300_000})
    tracemalloc.start()
    try:
        fault_of(data)
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()


def test_a_map_that_announces_too_many_entries_is_given_up_before_they_are_read() -> None:
    fault = fault_of({**TURN, "later": {str(index): None for index in range(MAX_MAP_ENTRIES + 1)}})
    assert (fault.code, fault.op) == (ErrorCode.MALFORMED, "")
    assert "4096" in fault.message


def test_a_message_that_holds_as_much_as_it_may_is_read() -> None:
    nested = MAX_NESTED - 3  # beside the message, its prefix and its text
    assert decode(later=[{}] * (nested - 1)) == decode()
    whole = [KEYS] * (MAX_ENTRIES // len(KEYS))
    assert decode(later=whole) == decode()
    assert decode(later={str(index): None for index in range(MAX_MAP_ENTRIES)}) == decode()
    assert len(CODEC.decode(CODEC.encode("1", TokenIds(ids=(7,) * MAX_ITEMS))).message.ids) == MAX_ITEMS


@pytest.mark.parametrize("part", [{"text": ""}, {"role": "user", "content": ""}])
def test_a_prompt_has_a_bounded_number_of_parts_and_a_turn_two_prompts_of_so_many(part: dict[str, str]) -> None:
    most = [part] * MAX_PARTS
    turn = decode(prefix=most, suffix=most)
    assert len(turn.prefix) == len(turn.suffix) == MAX_PARTS
    for name in ("prefix", "suffix"):
        fault = fault_of({**TURN, name: [*most, part]})
        assert (fault.code, fault.op) == (ErrorCode.MALFORMED, "7")
        assert fault.message == f"a prompt has at most 4096 parts, this has 4097: join some of them @ turn.{name}"


@pytest.mark.parametrize("figures", [[], "abc", None, {b"a": 1}, {"a": "1"}, {"a": True}])
def test_a_map_of_numbers_has_texts_as_keys_and_numbers_as_values(figures: Any) -> None:
    fields = msgpack.unpackb(bytes.fromhex(GOLDEN["figures"]))
    fault = fault_of({**fields, "figures": figures})
    assert (fault.code, fault.op) == (ErrorCode.MALFORMED, fields["op"])


def decodes_or_faults(data: bytes) -> None:
    with contextlib.suppress(DecodeFault):
        CODEC.decode(data)


@given(st.binary(max_size=200))
@example(b"\x81\xa2op\xa11")
def test_arbitrary_bytes_decode_or_are_a_fault(data: bytes) -> None:
    decodes_or_faults(data)


@given(st.sampled_from(sorted(GOLDEN)), st.data())
@settings(max_examples=300)
def test_damaged_messages_decode_or_are_a_fault(kind: str, data: st.DataObject) -> None:
    damaged = bytearray.fromhex(GOLDEN[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        if not damaged:
            break
    decodes_or_faults(bytes(damaged))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@given(st.sampled_from(sorted(GOLDEN)), st.data())
@settings(max_examples=300)
def test_any_value_in_any_field_decodes_or_is_a_fault(kind: str, data: st.DataObject) -> None:
    fields = msgpack.unpackb(bytes.fromhex(GOLDEN[kind]))
    fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(VALUES)
    decodes_or_faults(msgpack.packb(fields))


def test_an_integer_beyond_64_bits_is_refused_where_it_is_sent() -> None:
    for seed in (2**64, 2**70, -(2**63) - 1):
        with pytest.raises(WireError, match="Turn cannot be sent: an integer in it has more than 64 bits") as refused:
            CODEC.encode("1", Turn(session="s", prefix=(), decode=DecodeConfig(seed=seed)))
        assert refused.value.code == ErrorCode.MALFORMED
