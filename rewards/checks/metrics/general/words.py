"""The metric on the words in a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from guiagent.errors import InfrastructureError
from rewards.checks.metrics.general.pictures import opaque, picture
from rewards.checks.metrics.general.reading import zero_if_unreadable

_SETTINGS = {
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,  # a metric has one processor's time
    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
    "Global.log_level": "error",
    "Global.use_cls": False,  # whether lines are upside down
}


@zero_if_unreadable
def compare_image_text(result: Path, rules: Mapping[str, Any]) -> float:
    """1 if `rules["text"]` is part of the words read in a picture, line after line with a space between.

    OSWorld reads with EasyOCR, whose weights are a download; here it is RapidOCR, whose package has its own.

    Raises:
        InfrastructureError: the package is not installed.
    """
    return float(str(rules["text"]) in " ".join(_lines(opaque(picture(result)))))


def _lines(image: Image.Image) -> list[str]:
    try:
        from rapidocr import RapidOCR
        from rapidocr.utils.output import RapidOCROutput
    except ModuleNotFoundError as error:
        raise InfrastructureError(f"{error.name} is not installed: pip install 'guiagent[ocr]'") from None
    found = RapidOCR(params=_SETTINGS)(np.asarray(image)[:, :, ::-1])  # in OpenCV's order, blue first
    assert isinstance(found, RapidOCROutput)  # other types are for parts of its work alone
    return list(found.txts or ())
