"""The API is as its OpenAPI document says: every route stands there, and no request brings out a 5xx."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from starlette.routing import Route, WebSocketRoute

from devices.api.app import create_app
from devices.pool.service import PoolService
from devices.pool.store import open_store
from guiagent import wire
from tests.support.api_requests import Service, visit
from tests.support.canvas_device import DRIVERS, farm_of
from tests.support.pool_thread import pool_thread


@pytest.fixture
async def document(tmp_path: Path) -> dict[str, Any]:
    config = farm_of(1, tmp_path)
    store = open_store(config)
    app = create_app(PoolService(config, DRIVERS, store), config.tokens())
    http, sockets = set(), set()
    for route in app.routes:
        if isinstance(route, WebSocketRoute):
            sockets.add(route.path)
        elif isinstance(route, Route) or hasattr(route, "methods"):
            http |= {(route.path, method.lower()) for method in route.methods or () if method != "HEAD"}
    document = app.openapi()
    offered = {(path, method) for path, item in document["paths"].items() for method in item}
    assert http - {(wire.OPENAPI, "get")} == offered
    assert sockets == set(document["x-websockets"])
    await store.close()
    return document


async def test_every_route_is_documented_with_its_bodies_and_problems(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            where = f"{method} {path}"
            assert {"4XX", "5XX"} <= set(operation["responses"]), where
            assert any(code.startswith("2") for code in operation["responses"]), where
            assert "HTTPValidationError" not in str(operation), where
            if method in ("post", "put"):
                (body,) = operation["requestBody"]["content"].values()
                assert body["schema"], where
            for name in [part[1:-1] for part in path.split("/") if part.startswith("{")]:
                assert name in {one["name"] for one in operation["parameters"]}, where
    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas, reference
    step = schemas["StepRequest"]["properties"]["actions"]
    assert "click" in str(step) or "Click" in str(step)


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for one in value.values():
            yield from references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)


async def test_what_the_document_says_of_a_step_is_what_a_step_is(document: dict[str, Any]) -> None:
    schema = {"$ref": "#/components/schemas/StepRequest", "components": document["components"]}
    step = jsonschema_rs.validator_for(schema)
    good = {"token": 1, "key": "k", "actions": [{"type": "click", "x": 1, "y": 2}]}
    assert step.is_valid(good)
    for wrong in ({"token": "x"}, {"actions": [{"type": "boom"}]}, {"key": ""}, {"extra": 1}):
        assert not step.is_valid({**good, **wrong}), wrong


# -- requests of all kinds, sensible and not -----------------------------------------------------------------


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with pool_thread(farm_of(4, tmp_path_factory.mktemp("pool"))) as endpoint:
        service = Service(endpoint.url)
        yield service
        service.http.close()


@pytest.mark.slow
def test_a_few_requests_of_every_kind_bring_out_no_5xx(service: Service) -> None:
    seen = visit(service, examples=2)
    assert {200, 201, 204, 422} <= set(seen), seen  # it was not only refused


@pytest.mark.drill
def test_many_requests_of_every_kind_bring_out_no_5xx(service: Service) -> None:
    visit(service, examples=60)
