"""A model server of others behind the recording proxy: transformers' own, with the small policy."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.support.model_stand_in import closed_port
from tests.training.test_proxy import TOKEN, opened, png, user
from training.config import SMALL_POLICY
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling
from training.inputs.encoder import Encoder
from training.proxy.server import serving
from training.proxy.session import Session
from training.proxy.upstream import EngineUpstream, ServerUpstream, Upstream

pytestmark = pytest.mark.doors


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of `transformers serve` with the small policy."""
    address = closed_port()  # where it is going to listen
    command = [str(Path(sys.executable).parent / "transformers"), "serve", str(SMALL_POLICY)]
    command += ["--device", "cpu", "--host", "127.0.0.1", "--port", address.rpartition(":")[2]]
    own = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) as server:
        try:
            asyncio.run(_answering(address, server))
            yield address
        finally:
            server.terminate()


async def _answering(url: str, server: subprocess.Popen[bytes]) -> None:
    async with asyncio.timeout(180), httpx.AsyncClient(trust_env=False) as client:
        while server.poll() is None:
            try:
                (await client.get(f"{url}/health")).raise_for_status()
                return
            except httpx.HTTPError:
                await asyncio.sleep(0.2)
    raise AssertionError(f"the server ended with {server.returncode}")


async def said(upstream: Upstream, asked: list[Any], model: str) -> tuple[list[str], Session]:
    """What an agent is answered that asks these one by one, without chance; and the record of it."""
    proxy, answers = opened(upstream), list[str]()
    async with (
        serving(proxy) as base,
        openai.AsyncOpenAI(base_url=f"{base}/s/one/v1", api_key=TOKEN, max_retries=0) as client,
    ):
        for message in asked:
            reply = await client.chat.completions.create(
                model=model, messages=[message], temperature=0, max_tokens=12
            )
            answers.append(reply.choices[0].message.content or "")
    return answers, proxy.sessions["one"]


async def test_its_answers_are_those_of_the_policy_it_serves(url: str) -> None:
    policy = LocalPolicy(Encoder(SMALL_POLICY), Sampling(temperature=0, max_new_tokens=12))
    prompt = policy.encoder.dialect.prompt
    asked = [user(prompt("Click on Tab #2."), png(k, (160, 224))) for k in (1, 2)]
    upstream = ServerUpstream(url)
    try:
        theirs, session = await said(upstream, asked, str(SMALL_POLICY))
        ours, _ = await said(EngineUpstream(policy.encoder, policy.engine), asked, "policy")
    finally:
        await upstream.close()
        policy.close()
    assert theirs == ours and all(ours)
    calls = [call for step in session.steps for call in step.policy.calls]
    assert len(calls) == 2 and all(call.error is None and not call.completion_ids for call in calls)
