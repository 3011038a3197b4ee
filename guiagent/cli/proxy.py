"""`guiagent proxy`: an OpenAI-compatible server that records every call of an agent with its tokens."""

import asyncio
import contextlib
import os
import re
import secrets
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guiagent.errors import MissingProgram, UsageError

if TYPE_CHECKING:
    from training.proxy.upstream import Upstream

app = typer.Typer()

_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
_MOST_SESSIONS = 1_000  # open at once


@app.command()
def proxy(
    run: Annotated[Path, typer.Option(help="Folder whose trajectories/ gets the sessions.")],
    upstream: Annotated[
        str | None, typer.Option(metavar="URL[#MODEL]", help="A server with OpenAI's API, such as vLLM.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Or a checkpoint to sample in this process: tiny, a folder.")
    ] = None,
    listen: Annotated[str, typer.Option(metavar="[HOST:]PORT", help="0 picks a free port.")] = "0",
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Of a reply of --policy.")] = 512,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for an answer of --upstream.")] = 600,
) -> None:
    """Serve agents that speak OpenAI's API, and record their calls as trajectories.

    An agent's base address is http://HOST:PORT/s/NAME/v1, its key the token: $GUIAGENT_PROXY_TOKEN, or a new
    one, which is printed. Every NAME is a session; POST /s/NAME/end, with {"score": 1.0} if you know it,
    commits it, and Ctrl-C those that are left. $OPENAI_API_KEY is the upstream's key.
    """
    if (upstream is None) == (policy is None):
        raise UsageError("name what answers the calls: --upstream URL, or --policy tiny")
    try:
        from training.proxy import server  # noqa: F401 (whether its packages are there)
    except ModuleNotFoundError as missing:
        raise MissingProgram(
            f"the package {missing.name} is not installed: pip install 'guiagent[train,farm]'"
        ) from None
    from guiagent.serving import address_of

    host, port = address_of(listen, "--listen")
    with contextlib.ExitStack() as held:
        answering, models = _upstream(upstream, policy, max_new_tokens, timeout, held)
        asyncio.run(_serve(answering, models, run, host, port))


def _upstream(
    url: str | None, policy: str | None, max_new_tokens: int, timeout: float, held: contextlib.ExitStack
) -> "tuple[Upstream, tuple[str, ...]]":
    from training.proxy.upstream import EngineUpstream, ServerUpstream

    if url is not None:
        address, _, model = url.partition("#")
        return ServerUpstream(address, model or None, os.environ.get("OPENAI_API_KEY"), timeout), (
            model or "policy",
        )
    import torch

    from training.config import checkpoint_folder
    from training.engine.policy import LocalPolicy
    from training.engine.sampling import Sampling
    from training.inputs.encoder import Encoder

    torch.set_num_threads(1)
    assert policy is not None
    local = LocalPolicy(Encoder(checkpoint_folder(policy)), Sampling(max_new_tokens=max_new_tokens))
    held.callback(local.close)
    return EngineUpstream(local.encoder, local.engine), ("policy",)


async def _serve(answering: "Upstream", models: tuple[str, ...], run: Path, host: str, port: int) -> None:
    from guiagent.seeds import REINFORCEMENT
    from guiagent.storage.trajectories import TrajectoryStore
    from guiagent.types import Score, Trajectory
    from training.proxy.server import Proxy, serving
    from training.proxy.session import Session

    token = os.environ.get("GUIAGENT_PROXY_TOKEN") or secrets.token_urlsafe(24)
    with TrajectoryStore(run / "trajectories") as store:

        def new(name: str) -> Session:
            if not _NAME.fullmatch(name):
                raise UsageError("a session's name has letters, digits, '.', '-' and '_', 64 at most")
            if len(served.sessions) >= _MOST_SESSIONS:
                raise UsageError(f"{_MOST_SESSIONS} sessions are open: end some of them first")
            return Session(name, store.put_frame)

        def ended(session: Session, score: float | None) -> None:
            trajectory = Trajectory(
                f"{session.name}-{secrets.token_hex(4)}",
                "proxy",
                REINFORCEMENT.start,
                "",
                session.steps,
                "agent_done" if session.fault is None else "fault",
                None if score is None else Score(score, reason="given by the agent's owner"),
                fault=session.fault,
            )
            if session.steps:
                store.commit([trajectory])

        served = Proxy(answering, token, models, new)
        served.ended = ended
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        async with serving(served, host, port) as url:
            shown = "" if "GUIAGENT_PROXY_TOKEN" in os.environ else f"  key {token}"
            print(f"serving  {url}/s/NAME/v1{shown}", flush=True)
            await stopped.wait()
        for name, session in list(served.sessions.items()):
            served.close_session(name)
            ended(session, None)
        await answering.close()
        print(f"recorded {len(store)} sessions in {run}", flush=True)
