"""What agents ask of people, and what people say: approvals, and help with a device."""

from typing import Annotated, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field


class Decision(BaseModel):
    """What a person says to an action that needs approval."""

    model_config = ConfigDict(extra="forbid")

    allow: bool


class HelpRequest(BaseModel):
    """Ask for a person: for a login, a payment, a captcha. Asked again with the same key it is the same one.

    Attributes:
        token: the lease's fencing token.
        reason: what the person is to do, in one line.
        wait_s: how long to wait for somebody to come; who has come may take longer.
        poll_s: when to answer at the latest; "waiting" and "taken" mean: ask again.
        withdraw: do not wait any more, unless somebody has come already.
    """

    model_config = ConfigDict(extra="forbid")

    token: Annotated[int, Field(ge=0, le=2**63 - 1)]
    key: Annotated[str, Field(min_length=1, max_length=64)]
    reason: Annotated[str, Field(min_length=1, max_length=500)]
    wait_s: Annotated[float, Field(gt=0.0, le=86_400.0)] = 600.0
    poll_s: Annotated[float, Field(ge=0.0, le=60.0)] = 20.0
    withdraw: bool = False


class GiveBack(BaseModel):
    """How a person's help ended, and what he wants to say about it."""

    model_config = ConfigDict(extra="forbid")

    refuse: bool = False
    note: Annotated[str, Field(max_length=500)] = ""


class Approval(msgspec.Struct, frozen=True):
    """What an agent wants to do, and waits for a person to approve."""

    id: str
    device: str
    tenant: str
    rule: str  # the guardrail that asks
    what: str
    waited_s: float


class Approvals(msgspec.Struct, frozen=True):
    approvals: list[Approval]


HelpState = Literal["waiting", "taken", "done", "refused", "nobody", "left"]


class HelpAnswer(msgspec.Struct, frozen=True):
    """What became of a request for a person.

    Attributes:
        state: "waiting" and "taken" are not the end of it; "nobody": nobody came; "left": somebody came and
            has not given it back.
        note: what the person said.
        did: what the person did, a line for each action, without the texts that were typed.
    """

    state: HelpState
    note: str = ""
    did: list[str] = []


class HelpWanted(msgspec.Struct, frozen=True):
    """An agent that has asked for a person, as the operator sees it."""

    id: str  # whoever has it may drive the device
    device: str
    token: int  # of the agent's lease
    tenant: str
    label: str
    reason: str
    taken: bool  # somebody drives already
    waited_s: float


class HelpWanteds(msgspec.Struct, frozen=True):
    wanted: list[HelpWanted]
