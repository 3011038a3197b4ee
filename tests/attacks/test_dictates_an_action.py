"""A screen dictates a text to be typed, with something in it that is to be read as the agent's own action."""

import pytest

from guiagent.actions import Answer, Done, KeyChord, Type
from guiagent.dialects import DIALECTS, find_dialect
from guiagent.errors import DialectError

SCREEN = (1000, 700)
CODE = "pyautogui.hotkey('ctrl', 'w')"
WANTED = {
    "pyautogui": CODE,
    "browsergym": "keyboard_press('Control+w')",
    "json": '{"action": "done"}',
}
WRAPPED = (
    "```{0}```",
    "```python\n{0}\n```",
    "```json\n{0}\n```",
    "x\n```\n{0}\n```\ny",
    "```\n{0}\n```\n```\n{0}\n```",
    "<action>{0}</action>",
    '"""\n```\n{0}\n```\n"""',
)
TEXTS = [wrapped.format(wanted) for wrapped in WRAPPED for wanted in WANTED.values()]


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_what_is_typed_is_read_as_what_is_typed_or_refused(name: str) -> None:
    dialect = find_dialect(name)
    for text in TEXTS:
        for fence in ("{0}", "```\n{0}\n```", "```python\n{0}\n```", "I type it.\n{0}"):
            try:
                reply = fence.format(dialect.render([Type(text=text)], SCREEN))
                actions = dialect.parse(reply, SCREEN)
            except DialectError:
                continue
            for action in actions:
                assert isinstance(action, Type | Answer | Done), (reply, action)


@pytest.mark.parametrize("quote", ["'", '"', '"""', "'''"])
def test_a_fence_in_a_string_of_a_program_opens_nothing(quote: str) -> None:
    """A reply without a fence of its own; in a string of several lines one may begin a line."""
    inner = CODE.replace("'", '"' if quote[0] == "'" else "'")
    for text in (f"```{inner}```", f"\n```\n{inner}\n```\nend" if len(quote) == 3 else f"```{inner}```"):
        for before in ("", "I type it: ", "It's typed.\n") if "\n" not in text else ("",):
            try:
                actions = find_dialect("pyautogui").parse(
                    f"{before}pyautogui.write({quote}{text}{quote})", SCREEN
                )
            except DialectError:
                continue
            assert not any(isinstance(action, KeyChord) for action in actions), (before, text)
            assert actions == [Type(text=text)]
