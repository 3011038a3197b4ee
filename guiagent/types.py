"""Data types that devices, policies, checks, judges and the trainer exchange.

Records that are stored or sent (`msgspec.Struct`) are plain data: they hold no handles and no code.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
import xxhash

from guiagent.errors import Fault

FrameFormat = Literal["png", "jpeg", "none"]


class ObserveSpec(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What an observation should hold.

    `probes` are named JavaScript expressions evaluated in the page at the moment of the frame; their JSON
    values come back in `Observation.probes`. A lease must grant `exec` for them. `have` is the hash of the
    frame the caller already holds: an equal frame travels as its hash only.
    """

    frame: FrameFormat = "jpeg"
    quality: Annotated[int, msgspec.Meta(ge=1, le=100)] = 85  # of a JPEG
    tree: bool = False
    page: bool = False  # url and title
    probes: dict[str, str] = {}
    have: str | None = None


State = Literal[
    "active",  # the window that has the keyboard
    "busy",
    "checked",
    "clickable",  # a click does something, whatever the role
    "collapsed",
    "disabled",
    "editable",
    "expanded",
    "focused",
    "invalid",
    "long-clickable",
    "mixed",  # neither checked nor unchecked
    "modal",
    "password",  # what stands in it is told to nobody: its value is empty
    "pressed",
    "readonly",
    "required",
    "scrollable",
    "selectable",
    "selected",
]
_Side = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
Box = tuple[_Side, _Side, _Side, _Side]
"""Left, top, width and height, in pixels of the frame."""

MAX_NAME, MAX_VALUE, MAX_ID = 400, 4096, 64
"""Characters of a node's name, value and id."""


class Node(msgspec.Struct, frozen=True, omit_defaults=True):
    """An element of an accessibility tree, in the same words whatever the kind of device.

    The words are WAI-ARIA's (https://www.w3.org/TR/wai-aria-1.2/): `role` is one of `guiagent.nodes.ROLES`,
    `name` is what a person would call the element, `value` what stands in it. A device's drivers convert what
    it tells in its own words. Nothing in a node is trusted, but its sizes are bounded.

    Attributes:
        box: what the element takes of the screen; all 0 if it has no place there. It may reach beyond the
            frame.
        id: unique within its tree, and of no meaning in the next one.
        parent: the id of the nearest element around it that is in the tree.
    """

    role: Annotated[str, msgspec.Meta(max_length=32)]
    name: Annotated[str, msgspec.Meta(max_length=MAX_NAME)] = ""
    box: Box = (0, 0, 0, 0)
    id: Annotated[str, msgspec.Meta(max_length=MAX_ID)] = ""
    parent: Annotated[str, msgspec.Meta(max_length=MAX_ID)] | None = None
    value: Annotated[str, msgspec.Meta(max_length=MAX_VALUE)] = ""
    states: tuple[State, ...] = ()


class Picture(msgspec.Struct, frozen=True):
    """A picture that no device shows, such as one that belongs to an instruction."""

    data: bytes
    media_type: str


class Observation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a device shows. `frame` is empty when `unchanged` says that the caller holds it already.

    `given` are pictures that belong to the instruction, in order; a task adds them to its first observation.
    """

    width: int
    height: int
    hash: str = ""  # xxh3-128 of the frame bytes, hexadecimal
    media_type: str = ""
    frame: bytes = b""
    unchanged: bool = False
    url: str | None = None
    title: str | None = None
    tree: list[Node] | None = None  # parents before children
    probes: dict[str, Any] = {}
    action_error: str | None = None  # why the last action had no effect, as one line
    output: str | None = None  # what the last shell action printed, bounded
    given: tuple[Picture, ...] = ()

    @classmethod
    def of(
        cls, size: tuple[int, int], frame: bytes, spec: ObserveSpec, digest: str = "", **more: Any
    ) -> "Observation":
        """Make the observation of a screen of `size` pixels.

        `frame` is encoded as `spec` asks, or empty if none was asked for; it is left out if the caller holds
        it already. `digest` is its hash, if known.
        """
        if frame and not digest:
            digest = xxhash.xxh3_128_hexdigest(frame)
        unchanged = bool(digest) and digest == spec.have
        return cls(
            *size,
            hash=digest,
            media_type=f"image/{spec.frame}" if frame else "",
            frame=b"" if unchanged else frame,
            unchanged=unchanged,
            **more,
        )

    def _repr_png_(self) -> bytes | None:
        """The frame, for notebooks."""
        return self.frame if self.frame and self.media_type == "image/png" else None

    def _repr_jpeg_(self) -> bytes | None:
        return self.frame if self.frame and self.media_type == "image/jpeg" else None


class ResetSpec(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The state a device is reset to.

    `url` is a page (`https:`, `about:blank`, or a site the device host serves itself, such as
    `miniwob:click-test`); `script` is JavaScript run after it loaded, with `SEED` bound to the seed.
    `snapshot` names a snapshot (feature "snapshot"); siblings that are reset to the same one are forks of it.
    `profile` names a browser profile that outlives leases (feature "profile"). `state` is laid over the
    seeded start of a device whose whole state is one JSON document (feature "state").
    """

    url: str = "about:blank"
    script: str | None = None
    snapshot: str | None = None
    profile: str | None = None
    state: dict[str, Any] | None = None


class Capabilities(msgspec.Struct, frozen=True, omit_defaults=True):
    """The kind and features of a device; leases ask for a subset of `features`.

    Features: "exec" (probes and baseline scripts run in a page), "a11y" (accessibility tree), "page" (url and
    title), "shell" (commands), "files" (put and get), "snapshot", "fork" (devices of its kind on its
    host take over its snapshots), "profile", "state", "touch"; the services that can be connected to: "cdp",
    "adb", "osworld"; and "unlimited_egress" for one whose connections its host cannot limit.
    """

    kind: str  # "browser", "desktop", "vm", "phone" (the virtual one), "android", "lab", "sim"
    width: int
    height: int
    features: list[str] = []
    software: str = ""  # what it runs, with versions
    image: str = ""  # digest of the system it runs: of a VM's image, of a desktop's installed packages


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    ok: bool
    detail: str = ""


class CommandResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a command on a device; its output is cut at a limit that the device sets."""

    code: int
    stdout: str = ""
    stderr: str = ""


class Score(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value in [0, 1], its source, reason and evidence. `value` None means unknown, never zero.

    `progress` is the share of the task's conditions that are met, in [0, 1]; `side_effects` names what
    changed on the device and was not asked for. Both are None if the check does not measure them. `reward`
    replaces the value in training, where an evidence judge gives one; it may be below 0. `parts` are what the
    value is made of, by name, each in [0, 1]: "utility" and "compliance", say.
    """

    value: float | None
    source: Literal["check", "judge"] = "check"
    reason: str = ""
    evidence: dict[str, Any] = {}
    progress: float | None = None
    side_effects: list[str] | None = None
    reward: float | None = None
    parts: dict[str, float] = {}


Claim = Literal["success", "failure", "infeasible"]


class Ending(msgspec.Struct, frozen=True, omit_defaults=True):
    """The agent's answer and claim at the end of an episode, by its actions and not by its words."""

    answer: str | None = None  # of `Answer`
    claim: Claim | None = None  # the status of `Done`
    evidence: tuple[int, ...] = ()  # the turns whose screens it cites


class Call(msgspec.Struct, omit_defaults=True):
    """One call to a model, exactly as sampled: a turn of agents with several models or prompts makes several.

    `prompt_ids` are the tokens that it added to the context of the call before it, or, if it is `fresh`, a
    whole context of its own. The first call of an episode is always fresh. `frames` are the hashes of the
    pictures in `prompt_ids`, in their order; the store keeps them like those of steps. `policy_version` and
    `versions` are as in `PolicyOutput`.

    A call that was cut off has an `error` and no completion: it is part of no context, and nothing is learned
    from it.
    """

    role: str = ""  # which of an agent's models was called, by the name that the agent used
    prompt_ids: list[int] = []
    completion_ids: list[int] = []
    logprobs: list[float] = []
    policy_version: int = 0
    versions: list[tuple[int, int]] = []
    frames: list[str] = []
    fresh: bool = False
    error: str | None = None


class PolicyOutput(msgspec.Struct, omit_defaults=True):
    """A policy's output for one turn, exactly as sampled; never re-tokenised afterwards.

    `prompt_ids` are the tokens this turn *added* to the context before sampling (the first turn's include the
    system prompt and the instruction); `completion_ids` and `logprobs` have the same length. A `fresh` turn
    begins a new context instead of continuing the last one. The last `images` frames up to this turn's own
    are shown in `prompt_ids`, in order.

    `policy_version` is the oldest version that sampled here. If weights changed in the middle, `versions`
    says which version sampled from which token on; else it is empty.

    A turn of several `calls` has its tokens in them, and none in `prompt_ids` and `completion_ids`; its
    `policy_version` is the oldest of theirs.
    """

    text: str
    actions: list[dict[str, Any]] = []  # `Action` as JSON; empty when the text could not be parsed
    error: str | None = None  # the DialectError's line
    prompt_ids: list[int] = []
    completion_ids: list[int] = []
    logprobs: list[float] = []
    policy_version: int = 0
    versions: list[tuple[int, int]] = []  # (index of the first token, version) of each span
    images: int = 1
    fresh: bool = False
    calls: list[Call] = []

    @property
    def sampled(self) -> "Sequence[Call | PolicyOutput]":
        """What was sampled in this turn, in order: by each of its calls, or by the turn itself."""
        return self.calls or [self]


class Step(msgspec.Struct, omit_defaults=True):
    """One turn of a trajectory: the frame the policy saw, what it emitted, what the device answered."""

    frame: str  # hash of the frame, kept in the store
    width: int
    height: int
    policy: PolicyOutput
    policy_ms: float = 0.0
    device_ms: float = 0.0
    action_error: str | None = None
    elements: list[Node | None] = []  # that each action was aimed at, where that was recorded; without value

    @property
    def frames(self) -> set[str]:
        """Hashes of the frames of this turn: its own, and those that its calls were shown."""
        shown = {self.frame, *(frame for call in self.policy.calls for frame in call.frames)}
        return shown - {""}


StopReason = Literal["task_done", "agent_done", "max_steps", "parse_error", "fault"]


class Trajectory(msgspec.Struct, omit_defaults=True):
    """One episode, exactly as the policy saw and emitted it. Committed once, never changed."""

    id: str
    task: str
    seed: int
    instruction: str
    steps: list[Step]
    stop: StopReason
    score: Score | None = None  # None if a fault left it unknown
    audit: Score | None = None  # the state check's score, if a judge gave `score`; never trained on
    ending: Ending = Ending()
    fault: Fault | None = None
    final_frame: str = ""  # hash of the frame after the last action
    device: str = ""
    lease_token: int = 0
    group: str = ""  # shared by the members of one GRPO group
    group_index: int = 0
    group_size: int = 1
    platform: str = ""  # of the run that rolled it out, if that has several
    started: float = 0.0  # seconds since the epoch
    seconds: float = 0.0
    start: ResetSpec | None = None  # what the device was reset to, if that was no task's doing
    parent: str = ""  # id of the episode that this one repeats
    forked_at: int = 0  # its first steps that repeat the parent's; the others are its own

    @property
    def frames(self) -> set[str]:
        """Hashes of all frames: those of the steps, and the last one."""
        return {self.final_frame}.union(*(step.frames for step in self.steps)) - {""}

    @property
    def valid(self) -> bool:
        """True if there was no fault and the score is known; other trajectories are masked in training."""
        return self.fault is None and self.score is not None and self.score.value is not None

    @property
    def success(self) -> bool:
        return self.valid and self.score is not None and (self.score.value or 0.0) >= 1.0

    @property
    def false_completion(self) -> bool:
        """True if the agent claims a success that its score denies."""
        return self.valid and self.ending.claim == "success" and not self.success
