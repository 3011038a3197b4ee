"""What a model replied, as actions: the last step of every policy that speaks a dialect."""

from guiagent.actions import ACTIONS
from guiagent.dialects import Dialect
from guiagent.errors import DialectError
from guiagent.types import PolicyOutput


def read(output: PolicyOutput, dialect: Dialect, size: tuple[int, int]) -> None:
    """Set the actions that the text says, in pixels of a frame of (width, height), or why there are none."""
    try:
        output.actions = ACTIONS.dump_python(dialect.parse(output.text, size), mode="json")
    except DialectError as error:
        output.error = str(error)
