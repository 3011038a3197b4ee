"""Bytes of models, devices, hosts and files that would break a parser, be evaluated, or take for ever."""

from pathlib import Path

import msgspec
import pytest

from devices.hosts import messages
from tests.drills import parsers


def test_any_bytes_give_every_parser_a_value_or_its_own_error(tmp_path: Path) -> None:
    tally = parsers.fixed(tmp_path, 20)
    assert tally.problems == {}, tally.said
    assert tally.tried["read"] > 0


def test_a_message_with_a_name_that_is_no_utf8_is_no_message() -> None:
    """msgspec raises another error for names than for values."""
    for decode in (messages.decode_to_host, messages.decode_to_pool):
        with pytest.raises(msgspec.DecodeError):
            decode(b"\x92\xa5\xffence\x01")
