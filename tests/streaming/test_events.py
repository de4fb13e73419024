from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.messages import Finished, Usage
from kernel.errors import BadRequest, QueueFull
from streaming import events
from streaming.events import Ack, Ping, Resume, Send, Stop


def test_what_a_client_says() -> None:
    assert events.parse('{"type":"send","ref":"r","model":"m","text":"t"}') == Send("r", "m", "t")
    with_conversation = '{"type":"send","ref":"r","model":"m","text":"t","conversation":"cnv_1"}'
    assert events.parse(with_conversation) == Send("r", "m", "t", "cnv_1")
    assert events.parse('{"type":"stop","generation":"gen_1","more":1}') == Stop("gen_1")
    assert events.parse('{"type":"ack","generation":"gen_1","seq":3}') == Ack("gen_1", 3)
    assert events.parse('{"type":"ping","ref":"p"}') == Ping("p")
    resume = '{"type":"resume","ref":"r","generation":"gen_1","after_seq":7}'
    assert events.parse(resume) == Resume("r", "gen_1", 7)
    again = '{"type":"send","ref":"r","model":"m","text":"t","key":"k"}'
    assert events.parse(again) == Send("r", "m", "t", key="k")


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "null",
        "[]",
        "{",
        '{"type":"send"}',
        '{"type":"subscribe","ref":"r"}',
        '{"type":5}',
        '{"type":"send","ref":"","model":"m","text":"t"}',
        '{"type":"send","ref":5,"model":"m","text":"t"}',
        '{"type":"send","ref":"r","model":"m","text":"\\ud800"}',
        json.dumps({"type": "send", "ref": "r", "model": "m" * 101, "text": "t"}),
        json.dumps({"type": "send", "ref": "r" * 65, "model": "m", "text": "t"}),
        json.dumps({"type": "send", "ref": "r", "model": "m", "text": "t" * 200_001}),
        json.dumps({"type": "send", "ref": "r", "model": "m", "text": "t", "conversation": 5}),
        '{"type":"send","ref":"r","model":"m","text":"t","conversation":"cnv_\\u0000"}',
        '{"type":"send","ref":"r","model":"m","text":"t","conversation":""}',
        '{"type":"stop","generation":null}',
        '{"type":"ack","generation":"gen_1","seq":-1}',
        '{"type":"ack","generation":"gen_1","seq":1e400}',
        '{"type":"ack","generation":"gen_1"}',
        '{"type":"resume","ref":"r","generation":"gen_1","after_seq":-1}',
        '{"type":"resume","generation":"gen_1","after_seq":1}',
        '{"type":"ping"}',
        '{"type":"stop","generation":"gen 1"}',
        "[" * 100_000,
        '{"type":"send","ref":' + "9" * 5000 + "}",
    ],
)
def test_what_is_refused_says_why_in_a_few_words(frame: str) -> None:
    with pytest.raises(BadRequest) as refused:
        events.parse(frame)
    assert len(refused.value.message) < 200


@pytest.mark.parametrize(
    ("frame", "ref"),
    [
        ('{"type":"send","ref":"r"}', "r"),
        ('{"ref":5}', None),
        ('{"ref":"' + "r" * 65 + '"}', None),
        ("[]", None),
        ("{", None),
        ("[" * 100_000, None),
    ],
)
def test_the_sender_learns_which_of_its_messages_was_refused(frame: str, ref: str | None) -> None:
    assert events.ref_of(frame) == ref


@given(st.text(max_size=200) | st.from_regex(r'\{"type":"(send|stop|ack|resume|ping)".{0,60}'))
def test_no_text_does_anything_but_be_parsed_or_refused(frame: str) -> None:
    try:
        assert isinstance(events.parse(frame), Send | Stop | Ack | Resume | Ping)
    except BadRequest:
        events.ref_of(frame)


def test_the_end_carries_usage_in_openais_words() -> None:
    final = Finished(seq=5, text="", finish_reason="length", usage=Usage(3, 5, 2))
    assert json.loads(events.encode(events.finished("gen_1", final))) == {
        "type": "finished",
        "generation": "gen_1",
        "seq": 5,
        "finish_reason": "length",
        "restored": None,
        "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
    }


def test_an_error_says_whether_to_try_again() -> None:
    event = events.failed(QueueFull("Full."), ref="r")
    assert event["error"] == {"code": "queue_full", "message": "Full.", "retryable": True}
    assert (event["type"], event["ref"], event["generation"]) == ("error", "r", None)
