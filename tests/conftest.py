"""Fixtures that several test files share: a small untrained checkpoint and a real browser."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from guiagent.errors import InfrastructureError
from guiagent.protocols import Device


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small policy as it is before any training, as a Hugging Face folder. Not to be changed."""
    import torch

    from training.tiny import model

    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer = model.make_tokenizer(["Click on Tab #2.", "Click the button.", 'Point at "Cancel".'])
    model.save(model.make_model(tokenizer), model.make_processor(tokenizer), folder)
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser_device() -> AsyncIterator[Device]:
    """A headless Chromium of 160x224 pixels, one for all tests of a module, which reset it."""
    from devices.drivers import browser

    try:
        device = await browser.start(160, 224)
    except InfrastructureError as missing:
        pytest.skip(str(missing))
    yield device
    await device.close()
