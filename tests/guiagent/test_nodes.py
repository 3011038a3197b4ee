"""The search in accessibility trees: what matches, in which order, and what an error says."""

import pytest

from guiagent.errors import NotFoundError, UsageError
from guiagent.nodes import centre, described, is_control, is_field, matching, picked, reading, visible
from guiagent.types import Box, Node

TREE = [
    Node("window", "Mail", (0, 0, 300, 200), "1"),
    Node("text", "User name", id="2", parent="1"),
    Node("textbox", "User name", id="3", parent="1", value="bob", states=("editable",)),
    Node("button", "Sign in", id="4", parent="1"),
    Node("text", "Sign in", id="5", parent="4"),
    Node("button", "Sign up", id="6", parent="1", states=("disabled",)),
    Node("link", "Sign in with a key", id="7", parent="1"),
    Node("textbox", "", id="8", parent="1", value="Sign", states=("editable",)),
    Node("checkbox", "Stay", id="9", parent="1", states=("checked",)),
    Node("slider", "Volume", id="10", parent="1", value="30"),
]


def ids(text: str | None = None, role: str | None = None) -> list[str]:
    return [node.id for node in matching(TREE, text, role)]


def test_a_whole_name_beats_a_value_and_a_part() -> None:
    assert ids("sign  IN") == ["4", "5"]
    assert ids("sign") == ["8"]  # a whole value
    assert ids("sign u") == ["6"]
    assert ids("bo") == ["3"]
    assert ids("nothing") == []


def test_controls_come_first() -> None:
    assert ids("User name") == ["3", "2"]
    assert ids("User name", "text") == ["2"]
    assert ids(role="textbox") == ["3", "8"]
    assert len(ids()) == len(TREE)


def test_a_role_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="no role 'buton'; did you mean 'button'"):
        matching(TREE, "x", "buton")


@pytest.mark.parametrize(
    ("text", "role", "nth", "says"),
    [
        ("Sing in", None, 0, "there is no element 'Sing in' on the screen; what comes near: text 'Sign in'"),
        ("Sign in", "checkbox", 0, "there is no checkbox 'Sign in' on the screen; what comes near: button"),
        ("Sign in", None, 2, "there is no element 'Sign in' number 2: of 2, the first is 0"),
        ("Sign in", None, -1, "there is no element 'Sign in' number -1"),
        ("qqqqqq", None, 0, "there is no element 'qqqqqq' on the screen"),
        (None, "tree", 0, "there is no tree on the screen"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(
    text: str | None, role: str | None, nth: int, says: str
) -> None:
    with pytest.raises(NotFoundError) as raised:
        picked(TREE, text, role, nth)
    assert str(raised.value).startswith(says)
    assert "\n" not in str(raised.value)


def test_the_names_in_an_error_are_short_and_of_one_line() -> None:
    tree = [Node("button", f"{n}a\nb" + "c" * 390) for n in range(9)]
    with pytest.raises(NotFoundError) as raised:
        picked(tree, "x b" + "c" * 380, None)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_reading_leaves_out_what_is_said_twice_and_what_does_not_show() -> None:
    lines = ["Mail", "User name", "bob", "Sign in", "Sign up", "Sign in with a key", "Sign", "Stay", "Volume"]
    assert reading(TREE).split("\n") == [*lines, "30"]
    assert reading([Node("application", "editor"), Node("text", "words", value="words")]) == "words"
    assert reading([]) == ""


@pytest.mark.parametrize(
    ("box", "shows"),
    [
        ((10, 20, 30, 40), (10, 20, 30, 40)),
        ((-10, -20, 30, 40), (0, 0, 20, 20)),
        ((90, 80, 30, 40), (90, 80, 10, 20)),
        ((100, 0, 10, 10), None),
        ((-10, 0, 10, 10), None),
        ((0, 0, 0, 0), None),
        ((-(2**31), -(2**31), 2**31 - 1, 2**31 - 1), None),
    ],
)
def test_the_visible_part_of_a_box(box: Box, shows: Box | None) -> None:
    assert visible(box, 100, 100) == shows


def test_the_centre_lies_inside() -> None:
    assert centre((10, 20, 30, 40)) == (25, 40)
    assert centre((7, 7, 1, 1)) == (7, 7)


def test_controls_and_fields() -> None:
    assert [node.id for node in TREE if is_control(node)] == ["3", "4", "7", "8", "9", "10"]
    assert [node.id for node in TREE if is_field(node)] == ["3", "8"]
    assert is_control(Node("generic", states=("clickable",)))
    assert described(Node("image")) == "image"
