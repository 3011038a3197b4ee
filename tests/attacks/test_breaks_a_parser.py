"""Bytes of models, devices, hosts and files that would break a parser, be evaluated, or take for ever."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from devices.drivers.android import tree
from devices.drivers.remote import xml_tree
from devices.hosts import messages
from guiagent.errors import DECODE_ERRORS, FaultError
from guiagent.uiautomator import TreeError
from tests.drills import parsers


def test_any_bytes_give_every_parser_a_value_or_its_own_error(tmp_path: Path) -> None:
    tally = parsers.fixed(tmp_path, 20)
    assert tally.problems == {}, tally.said
    assert tally.tried["read"] > 0


def test_a_message_with_a_name_that_is_no_utf8_is_no_message() -> None:
    """msgspec raises another error for names than for values."""
    for decode in (messages.decode_to_host, messages.decode_to_pool):
        with pytest.raises(DECODE_ERRORS):
            decode(b"\x92\xa5\xffence\x01")


DEEP = "<a>" * 200_000 + "</a>" * 200_000
FLAT = "<a>" + "<a/>" * 200_000 + "</a>"


@pytest.mark.parametrize("xml", [DEEP, FLAT])
def test_a_tree_of_elements_that_nobody_sees_is_refused_before_it_is_parsed(
    xml: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elements without a size or a text count towards no limit of nodes; all were looked at."""
    monkeypatch.setattr(ElementTree, "fromstring", None)
    with pytest.raises(FaultError, match="over 100000 tags"):
        xml_tree.told(xml)
    with pytest.raises(TreeError, match="over 50000 tags"):
        tree.parse(f"<?xml version='1.0'?><hierarchy>{xml}</hierarchy>".encode(), 100, 100)


READS = """
import sys
from guiagent.dialects import language
from rewards.judges import replies
replies._LONGEST = 1 << 20
for blank in " ", "*", "\\t ", "\\n":
    for end in "x", ".x", ". 1":
        read = replies.read_score("SCORE: 1" + blank * (400_000 // len(blank)) + end)
        print(read.value, end=" ")
        language.code_of("```json" + blank * (400_000 // len(blank)) + end)
"""


def test_the_work_to_read_a_reply_grows_with_its_length() -> None:
    """It grew with the square: to seconds for the 16,000 characters that are read, to an hour for these."""
    done = subprocess.run([sys.executable, "-c", READS], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["None"] * 9 + ["1.0"] * 3, done.stderr
