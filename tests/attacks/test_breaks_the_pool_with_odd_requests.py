"""Requests that are JSON, or nearly, and end in no 5xx: each is refused with a line that says why."""

from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from guiagent import wire
from tests.support.canvas_device import TOKEN, farm_of
from tests.support.pool_thread import pool_thread


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with pool_thread(farm_of(1, tmp_path_factory.mktemp("pool"))) as endpoint:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        with httpx.Client(base_url=endpoint.url, headers=headers, timeout=30, trust_env=False) as client:
            yield client


@pytest.fixture(scope="module")
def lease(http: httpx.Client) -> dict[str, Any]:
    wish = {"kind": "sim", "ttl_s": 3600.0, "grants": ["exec", "shell", "files"]}
    (lease,) = http.post(wire.LEASES, json=wish).json()["leases"]
    return dict(lease)


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return opening * depth + closing * depth


DEEP = [100, 2_000, 100_000]
ODD = [
    *[("reset", f'"seed":0,"baseline":{{"state":{{"a":{nested(depth)}}}}}') for depth in DEEP],
    *[("reset", '"seed":0,"baseline":{{"state":{}}}'.format(nested(depth, '{"a":', "}"))) for depth in DEEP],
    *[("step", f'"actions":{nested(depth)}') for depth in DEEP],
    *[("step", f'"actions":[{{"type":"wait","ms":{nested(depth)}}}]') for depth in DEEP],
    *[("exec", f'"command":{nested(depth)}') for depth in DEEP],
    ("step", '"actions":[],"spec":{"quality":99999999999999999999}'),
    ("step", '"actions":[],"spec":{"quality":0}'),
    ("step", '"actions":[],"spec":{"quality":101}'),
    ("step", '"actions":[],"deadline_s":1e400'),
    ("step", '"actions":[{"type":"click","x":1e308,"y":1e308}]'),
    ("step", '"actions":[{"type":"type","text":"\\ud800"}]'),
    ("step", '"actions":[{"type":"click","x":1,"y":2,"\\ud800":3}]'),
    ("reset", '"seed":99999999999999999999999'),
    ("reset", '"seed":0,"baseline":{"state":{"a":99999999999999999999999}}'),
    ("reset", '"seed":0,"baseline":{"state":{"a":[-9223372036854775809]}}'),
    ("reset", '"seed":0,"baseline":{"state":{"\\ud800":1}}'),
    ("observe", '"spec":{"probes":{"\\udfff":"1"}}'),
]


@pytest.mark.parametrize(("verb", "fields"), ODD, ids=lambda text: str(text)[:40])
def test_an_odd_verb_is_refused(http: httpx.Client, lease: dict[str, Any], verb: str, fields: str) -> None:
    key = "" if verb == "observe" else '"key":"odd",'
    body = f'{{"token":{lease["token"]},{key}{fields}}}'
    refused(http.post(f"{wire.LEASES}/{lease['id']}/{verb}", content=body))


@pytest.mark.parametrize(
    "body",
    [
        b'{"token":99999999999999999999,"spec":{}}',
        b'{"token":-1,"spec":{}}',
        b'{"token":1,"spec":{"have":"\xff\xfe"}}',
        b"\x00",
        b"",
        b"\xef\xbb\xbf{}",
        b"[" * 500_000,
    ],
    ids=lambda body: str(body[:20]),
)
def test_an_odd_body_is_refused(http: httpx.Client, lease: dict[str, Any], body: bytes) -> None:
    refused(http.post(f"{wire.LEASES}/{lease['id']}/observe", content=body))


@pytest.mark.parametrize(
    "body",
    [
        *[f'{{"kind":"sim","needs":{nested(depth)}}}' for depth in (100, 2_000, 60_000)],
        '{"kind":"\\ud800"}',
        '{"\\ud800":1}',
        '{"kind":"sim","ttl_s":NaN}',
        '{"kind":"sim","n":1e400}',
        '{"kind":"sim","n":%s}' % ("9" * 5_000),
        '{"kind":"sim","egress":["\\u0000"]}',
        '{"kind":"sim","egress":["[::1"]}',
        '{"kind":"sim","device":"\\u0000"}',
        '{"kind":"sim","near":"\\u0000"}',
        "{{{}}}".format(",".join(f'"a{number}":1' for number in range(10_000))),
    ],
    ids=lambda body: body[:40],
)
def test_an_odd_lease_request_is_refused(http: httpx.Client, body: str) -> None:
    refused(http.post(wire.LEASES, content=body))


def test_addresses_of_any_bytes_are_refused(http: httpx.Client, lease: dict[str, Any]) -> None:
    for path in ("/%00", f"{wire.DEVICES}/%ff%fe/frame", f"{wire.DEVICES}/{'a' * 5000}/logs", "/%"):
        refused(http.get(path))
    for path, token in (("", 1), ("/x", 2**63), ("/x", -1), ("a" * 5000, 1), ("/x", "²")):
        refused(http.put(f"{wire.LEASES}/{lease['id']}/files", params={"path": path, "token": token}))


def refused(answer: httpx.Response) -> None:
    assert 400 <= answer.status_code < 500, answer.text[:500]
    problem = msgspec.json.decode(answer.content, type=wire.Problem)
    assert problem.detail
    assert len(problem.detail) <= 600
