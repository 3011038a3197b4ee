"""The word for evidence in every dialect: always parsed and rendered, in the prompt only on request."""

import json

import pytest

from guiagent.actions import Answer, Click, Done
from guiagent.dialects import EVIDENCE, EVIDENT, OTHERS, find_dialect
from guiagent.errors import DialectError, UsageError

SIZE = (1000, 700)
_TARS = "finished(content='', evidence=[1,2])"
TOLD = {name: _TARS if name.startswith("ui-tars") else '"evidence"' for name in EVIDENT}


def words(name: str) -> str:
    dialect = find_dialect(name)
    return dialect.system + dialect.prompt("")


@pytest.mark.parametrize("name", EVIDENT)
def test_the_prompt_speaks_of_evidence_only_when_asked(name: str) -> None:
    assert "evidence" not in words(name)
    asked = words(name + EVIDENCE)
    assert TOLD[name] in asked and "three at most" in asked


@pytest.mark.parametrize("name", EVIDENT)
@pytest.mark.parametrize("asked", ["", EVIDENCE])
def test_what_is_done_is_said_with_its_evidence_and_read_back(name: str, asked: str) -> None:
    dialect = find_dialect(name + asked)
    for done in (Done(), Done(evidence=(0,)), Done(evidence=(4, 0, 12))):
        assert dialect.parse(dialect.render([done], SIZE), SIZE) == [done]
        said = [Answer(text="it's 7"), done]
        assert dialect.parse(dialect.render(said, SIZE), SIZE) == said


def test_pictures_are_numbered_from_one_and_turns_from_zero() -> None:
    tars = find_dialect("ui-tars")
    assert tars.render([Done(evidence=(0, 2))], SIZE) == "Action: finished(evidence=[1,3])"
    assert tars.parse("Action: finished(evidence=3)", SIZE) == [Done(evidence=(2,))]
    assert tars.parse("Action: finished(content='', evidence=[])", SIZE) == [Done()]
    assert tars.render([Answer(text="a"), Done(evidence=(0,))], SIZE) == (
        "Action: finished(content='a', evidence=[1])"
    )
    qwen = find_dialect("qwen3-computer")
    reply = qwen.render([Done(status="failure", evidence=(1,))], SIZE)
    said = json.loads(reply.removeprefix("<tool_call>").removesuffix("</tool_call>"))
    assert said["arguments"] == {"action": "terminate", "status": "failure", "evidence": [2]}


@pytest.mark.parametrize(
    "evidence", ["[0]", "[-1]", "[1.5]", "'1'", "[True]", "[[1]]", "[1001]", "list(range(9))", str([1] * 17)]
)
def test_evidence_that_is_no_number_of_a_picture_is_refused(evidence: str) -> None:
    with pytest.raises(DialectError):
        find_dialect("ui-tars").parse(f"Action: finished(evidence={evidence})", SIZE)


@pytest.mark.parametrize("evidence", [[0], [-1], [1.5], ["1"], 1, [1001], [1] * 17])
def test_so_it_is_in_a_call(evidence: object) -> None:
    arguments = {"action": "terminate", "status": "success", "evidence": evidence}
    call = json.dumps({"name": "mobile_use", "arguments": arguments})
    with pytest.raises(DialectError):
        find_dialect("qwen3-mobile").parse(f"<tool_call>{call}</tool_call>", SIZE)


def test_other_calls_take_none() -> None:
    with pytest.raises(DialectError):
        find_dialect("ui-tars").parse("Action: click(start_box='(1,2)', evidence=[1])", SIZE)
    assert find_dialect("ui-tars+evidence").parse("Action: click(start_box='(1,2)')", SIZE) == [
        Click(x=1, y=2)
    ]


@pytest.mark.parametrize("name", ["ui-tars+proof", "esperanto+evidence", "+evidence"])
def test_there_is_no_other_addition(name: str) -> None:
    with pytest.raises(UsageError, match=r"also with \+evidence"):
        find_dialect(name)


@pytest.mark.parametrize("name", OTHERS)
def test_a_language_without_a_word_for_it_says_so(name: str) -> None:
    with pytest.raises(UsageError, match="has no word for evidence; these have: ui-tars"):
        find_dialect(name + EVIDENCE)
