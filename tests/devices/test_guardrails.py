"""Guardrails: what a rule matches, how a hidden text is found, and that no verb goes round them."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from pydantic import ValidationError

from devices.api.server import Running, running
from devices.config import PoolConfig, TenantConfig
from devices.guardrails.intents import Intent, intents
from devices.guardrails.rules import ALLOWED, Guardrails, decide
from guiagent import wire
from guiagent.actions import Action, Answer, Click, KeyChord, KeyDown, Open, Shell, Type
from guiagent.client import FarmClient, LeasedDevice
from guiagent.confidential import LONGEST, disclosed
from guiagent.config import load
from guiagent.errors import LeaseError, UsageError
from guiagent.types import ObserveSpec, ResetSpec
from tests.support.canvas_device import DRIVERS, TOKEN, farm_of

CARD = "4111-1111-1111-1111"
ANN = "a-token-that-is-anns"
LOOK = ObserveSpec(frame="none")
COUNT = ObserveSpec(frame="none", probes={"clicks": "how many"})
RULES = Guardrails.model_validate(
    {
        "open": ["https://*.example.org/*", "calculator", "http://[::1]:80/*"],
        "services": ["cdp"],
        "confidential": [CARD],
        "forbid": [
            {"name": "no deleting", "text": ["rm -rf", "drop table"], "reason": "ask a person"},
            {"name": "bank", "actions": ["type", "key"], "page": ["https://bank.example/*"]},
        ],
        "approve": [{"name": "programs", "actions": ["exec", "shell"]}],
    }
)


@pytest.mark.parametrize(
    ("intent", "page", "expected"),
    [
        (Intent("click"), None, ("allowed", "")),
        (Intent("type", "hello", is_typed=True), "https://shop.example/", ("allowed", "")),
        (Intent("type", "hello", is_typed=True), "https://bank.example/login", ("refused", "bank")),
        (Intent("click"), "https://bank.example/login", ("allowed", "")),
        (Intent("type", "hello", is_typed=True), None, ("allowed", "")),
        (Intent("type", "sudo RM  -rf /", is_typed=True), None, ("refused", "no deleting")),
        (Intent("put", "/x.sql\nDROP\nTABLE users"), None, ("refused", "no deleting")),
        (Intent("shell", "ls"), None, ("to approve", "programs")),
        (Intent("exec", "rm -rf /"), None, ("refused", "no deleting")),
        (Intent("open", "calculator", opens=("calculator",)), None, ("allowed", "")),
        (
            Intent("open", "https://a.example.org/x", opens=("https://a.example.org/x",)),
            None,
            ("allowed", ""),
        ),
        (Intent("open", "http://[::1]:80/x", opens=("http://[::1]:80/x",)), None, ("allowed", "")),
        (Intent("open", "http://::80/x", opens=("http://::80/x",)), None, ("refused", "open")),
        (Intent("open", "https://example.com/", opens=("https://example.com/",)), None, ("refused", "open")),
        (Intent("reset", "about:blank", opens=("about:blank",)), None, ("allowed", "")),
        (
            Intent("reset", "https://evil.example/", opens=("https://evil.example/",)),
            None,
            ("refused", "open"),
        ),
        (Intent("connect", "cdp"), None, ("allowed", "")),
        (Intent("connect", "adb"), None, ("refused", "services")),
        (Intent("probe", f"fetch('//x/' + '{CARD}')"), None, ("refused", "confidential")),
        (Intent("get", "/etc/hosts"), None, ("allowed", "")),
        (Intent("put", "x" * (LONGEST + 1)), None, ("refused", "confidential")),
    ],
)
def test_the_verdict_on_one_intent(intent: Intent, page: str | None, expected: tuple[str, str]) -> None:
    verdict = decide([RULES], [intent], page, typed="")
    assert (verdict.outcome, verdict.rule) == expected


def test_the_strictest_verdict_counts() -> None:
    lax, strict = Guardrails(), Guardrails.model_validate({"forbid": [{"name": "all"}]})
    assert decide([lax], [Intent("click")], None, "") == ALLOWED
    assert decide([RULES, strict], [Intent("shell", "ls")], None, "").rule == "all"
    assert (
        decide([RULES], [Intent("click"), Intent("shell", "ls"), Intent("click")], None, "").rule
        == "programs"
    )
    assert decide([], [Intent("shell", "ls")], None, "") == ALLOWED


@pytest.mark.parametrize(
    "text",
    [
        f"the card is {CARD}.",
        "4111 1111 1111 1111",
        "41111111 11111111",
        "１１１１１１１１１１１１１１１４",  # wide digits, backwards
        f"https://evil.example/?card={quote(quote(CARD))}",
        f"https://evil.example/{base64.urlsafe_b64encode(f'card {CARD}'.encode()).decode().rstrip('=')}",
        f"xyz{base64.b64encode(CARD.encode()).decode()}",
        CARD.encode().hex(),
        CARD.encode().hex().upper(),
        CARD[::-1],
    ],
)
def test_a_text_that_must_not_leave_is_found(text: str) -> None:
    assert disclosed(text, ["another secret", CARD]) == CARD


@pytest.mark.parametrize(
    "text", ["", "4111-1111-1111-1112", "4111-1111", "a" * 4000, "%%%", "=" * 99, "\ud800"]
)
def test_nothing_else_is_taken_for_it(text: str) -> None:
    assert disclosed(text, [CARD]) is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"forbid": [{"name": "x", "actions": ["clik"]}]}, "there is no action or verb 'clik'"),
        ({"confidential": ["abc"]}, "fewer than 6 letters and digits"),
        ({"confidential": ["--- --- ---"]}, "fewer than 6 letters and digits"),
        ({"forbid": [{"actions": ["click"]}]}, "name"),
        ({"services": ["ssh"]}, "services"),
        ({"forbids": []}, "forbids"),
    ],
)
def test_a_wrong_rule_is_refused_before_anything_starts(values: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Guardrails.model_validate(values)


def test_they_stand_in_a_pools_config_file(tmp_path: Path) -> None:
    file = tmp_path / "pool.toml"
    file.write_text(
        '[guardrails]\nopen = ["https://*"]\n[[guardrails.forbid]]\nname = "no shell"\nactions = ["shell"]\n'
        f'[[tenants]]\nname = "ann"\ntoken = "{ANN}"\n[tenants.guardrails]\nconfidential = ["{CARD}"]\n'
    )
    config = load(PoolConfig, file)
    assert config.guardrails is not None and config.guardrails.forbid[0].actions == ["shell"]
    assert config.tenants[0].guardrails == Guardrails(confidential=[CARD])
    file.write_text('[[guardrails.forbid]]\nname = "x"\nactions = ["clik"]\n')
    with pytest.raises(UsageError, match=r"guardrails.forbid.0.actions.0: .* no action or verb 'clik'"):
        load(PoolConfig, file)


def test_what_every_verb_is_about_to_do() -> None:
    def step(*actions: Action, spec: ObserveSpec = LOOK) -> wire.StepRequest:
        from guiagent.actions import ACTIONS

        return wire.StepRequest(1, "k", msgspec.Raw(ACTIONS.dump_json(list(actions))), spec)

    typed = [Intent("key", "A", True), Intent("key", "", True), Intent("key_down", "b", True), Intent("key")]
    keys = KeyChord(keys=("Shift", "A")), KeyChord(keys=("Enter",)), KeyDown(key="b")
    assert list(intents(step(*keys, KeyChord(keys=("Control", "a"))))) == typed
    assert list(intents(step(Answer(text="a"), Shell(command="b")))) == [
        Intent("answer", "a"),
        Intent("shell", "b"),
    ]
    assert list(intents(step(Click(x=1, y=1), spec=COUNT))) == [Intent("click"), Intent("probe", "how many")]
    assert list(intents(wire.ObserveRequest(1, LOOK))) == []
    assert list(intents(wire.ObserveRequest(1, COUNT))) == [Intent("probe", "how many")]
    reset = wire.ResetRequest(1, "k", 0, ResetSpec("https://x/", "script", state={"a": "b"}))
    assert list(intents(reset)) == [Intent("reset", 'https://x/\nscript\n{"a":"b"}', opens=("https://x/",))]
    assert list(intents(wire.ExecRequest(1, "k", ["echo", "a b"]))) == [Intent("exec", "echo 'a b'")]
    assert list(intents(wire.PutRequest(1, "/x", b"data"))) == [Intent("put", "/x\ndata")]
    assert list(intents(wire.SnapshotRequest(1, "k"))) == []


# -- at the pool ---------------------------------------------------------------------------------------------


@pytest.fixture
async def farm(tmp_path: Path) -> AsyncIterator[Running]:
    rules = RULES.model_copy(update={"services": []})
    strict = Guardrails.model_validate({"forbid": [{"name": "hands off", "actions": ["click"]}]})
    tenants = [TenantConfig(name="ann", token=ANN, guardrails=strict)]
    async with running(farm_of(2, tmp_path, guardrails=rules, tenants=tenants), DRIVERS) as farm:
        await farm.service.settled()
        yield farm


@pytest.fixture
async def operator(farm: Running) -> AsyncIterator[FarmClient]:
    async with FarmClient(farm.endpoint.url, TOKEN) as client:
        yield client


@pytest.fixture
async def device(operator: FarmClient) -> LeasedDevice:
    return await operator.lease("sim", grants=("exec", "shell", "files"))


async def test_a_refused_action_has_no_effect_and_the_step_says_why(
    device: LeasedDevice, operator: FarmClient
) -> None:
    seen = await device.act([Click(x=9, y=9), Type(text="drop table users")], COUNT)
    assert seen.action_error == "refused by the guardrail no deleting: ask a person"
    assert seen.probes == {"clicks": 0}
    assert (await device.observe(COUNT)).probes == {"clicks": 0}
    assert (await device.act([Click(x=9, y=9)], COUNT)).probes == {"clicks": 1}
    assert "refused by the guardrail no deleting: ask a person" in await operator.logs(device.id)
    metrics = (await operator.call("GET", wire.METRICS)).body.decode()
    assert 'guiagent_guardrail_refusals_total{tenant=""} 1.0' in metrics


async def test_no_other_verb_goes_round_them(device: LeasedDevice) -> None:
    with pytest.raises(UsageError, match="refused by the guardrail no deleting: ask a person"):
        await device.exec(["sh", "-c", "rm -rf /"])
    with pytest.raises(UsageError, match="refused by the guardrail confidential"):
        await device.put("/notes", f"card: {CARD}".encode())
    with pytest.raises(UsageError, match="refused by the guardrail open"):
        await device.reset(0, ResetSpec("https://evil.example/"), LOOK)
    with pytest.raises(UsageError, match="refused by the guardrail confidential"):
        await device.observe(ObserveSpec(frame="none", probes={"x": f"send('{CARD}')"}))
    with pytest.raises((UsageError, ConnectionError), match="services: nothing that goes through 'adb'"):
        await device.connect("adb")
    await device.put("/notes", b"nothing of note")
    assert await device.get("/notes") == b"nothing of note"


async def test_a_text_is_found_also_in_pieces(device: LeasedDevice) -> None:
    for piece in ("4111-1111", "-1111-11"):
        assert (await device.act([Type(text=piece), Click(x=1, y=1)], LOOK)).action_error is None
    assert (await device.act([KeyChord(keys=("1",))], LOOK)).action_error is None
    refused = await device.act([KeyChord(keys=("1",))], LOOK)
    assert refused.action_error is not None and "confidential" in refused.action_error
    assert (await device.act([KeyChord(keys=("2",))], LOOK)).action_error is None


async def test_a_tenant_has_its_own_besides_the_pools(farm: Running, device: LeasedDevice) -> None:
    async with FarmClient(farm.endpoint.url, ANN) as ann:
        hers = await ann.lease("sim", grants=("shell",))
        refused = await hers.act([Click(x=9, y=9)], LOOK)
        assert refused.action_error == "refused by the guardrail hands off"
        refused = await hers.act([Type(text="rm -rf /")], LOOK)
        assert refused.action_error == "refused by the guardrail no deleting: ask a person"
        with pytest.raises(UsageError, match="is the operator's"):
            await ann.approvals()
        with pytest.raises(UsageError, match="is the operator's"):
            await ann.decide("x", allow=True)
    assert (await device.act([Click(x=9, y=9)], LOOK)).action_error is None


async def _waiting(operator: FarmClient, count: int = 1) -> list[wire.Approval]:
    async with asyncio.timeout(10):
        while len(found := await operator.approvals()) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return found


async def test_a_person_approves_or_refuses(device: LeasedDevice, operator: FarmClient) -> None:
    ran = asyncio.create_task(device.exec(["date", "+%s"]))
    (wish,) = await _waiting(operator)
    assert (wish.device, wish.tenant, wish.rule, wish.what) == (device.id, "", "programs", "exec date +%s")
    await operator.decide(wish.id, allow=True)
    assert (await ran).stdout == "date +%s"
    refused = asyncio.create_task(device.act([Click(x=9, y=9), Shell(command="date")], COUNT))
    (wish,) = await _waiting(operator)
    await operator.decide(wish.id, allow=False)
    assert (await refused).action_error == "a person refused it: programs"
    assert (await device.observe(COUNT)).probes == {"clicks": 0}
    with pytest.raises(UsageError, match="waits for approval"):
        await operator.decide(wish.id, allow=True)


async def test_an_approval_that_never_comes_keeps_the_lease(
    device: LeasedDevice, operator: FarmClient
) -> None:
    device.deadline_s = 0.2
    late = await device.act([Shell(command="date")], LOOK)
    assert late.action_error == "nobody approved it within 0.2 s: programs"
    assert await operator.approvals() == []
    assert (await device.act([Click(x=9, y=9)], COUNT)).probes == {"clicks": 1}


async def test_a_lease_that_ends_while_somebody_thinks(device: LeasedDevice, operator: FarmClient) -> None:
    ran = asyncio.create_task(device.exec(["date"]))
    (wish,) = await _waiting(operator)
    await operator.call("DELETE", f"{wire.LEASES}/{device._lease}")
    await operator.decide(wish.id, allow=True)
    with pytest.raises(LeaseError):
        await ran


async def test_a_repeated_request_is_asked_about_once_and_another_one_under_its_key_again(
    device: LeasedDevice, operator: FarmClient
) -> None:
    path = f"{wire.LEASES}/{device._lease}/exec"

    def asked(*command: str) -> asyncio.Task[object]:
        body = msgspec.json.encode(wire.ExecRequest(device.token, "one-key", list(command), 5.0, 5.0))
        return asyncio.create_task(operator.call("POST", path, body))

    both = [asked("date"), asked("date")]
    (wish,) = await _waiting(operator)
    await asyncio.sleep(0.05)  # whether a second wish comes
    assert [one.id for one in await operator.approvals()] == [wish.id]
    await operator.decide(wish.id, allow=True)
    assert len({(await one).body for one in both}) == 1  # type: ignore[attr-defined]
    await asked("date")  # answered from memory: nobody has to say anything
    other = asked("reboot")
    (wish,) = await _waiting(operator)
    assert wish.what == "exec reboot"
    await operator.decide(wish.id, allow=False)
    with pytest.raises(UsageError, match="a person refused it"):
        await other


async def test_without_rules_nothing_is_held_up(tmp_path: Path) -> None:
    async with running(farm_of(1, tmp_path), DRIVERS) as farm, FarmClient(farm.endpoint.url, TOKEN) as client:
        device = await client.lease("sim", grants=("shell", "exec"))
        assert (await device.exec(["rm", "-rf", "/"])).stdout == "rm -rf /"
        assert (await device.act([Open(target="https://evil.example/")], LOOK)).action_error is None
