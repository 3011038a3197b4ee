"""`guiagent watch`: what it refuses and exports, a mirrored run, and who would get a token of ours."""

import re
from pathlib import Path

import pytest

from guiagent.cli.common.farm import POOL
from guiagent.cli.train.watch import _endpoint, resume_command, watch
from guiagent.errors import InfrastructureError, UsageError
from tests.support.watched import write_run
from training.checkpoints.following import MirrorFollower
from training.checkpoints.storage import Manifest, Storage
from training.checkpoints.upload import Uploader


def export(run: object, file: Path) -> str:
    watch(str(run), 0, None, file)
    return file.read_text()


def test_a_run_is_exported_into_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_run(tmp_path / "run")
    page = export(root, tmp_path / "page.html")
    assert "data:image/png;base64," in page and "http-equiv" in page
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    assert capsys.readouterr().out.startswith("written   ")
    assert resume_command(str(root), root) == f"guiagent train --recipe {root}/config.toml --run {root}"


def test_what_is_no_run_is_refused_in_one_line_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing of a run"):
        export(tmp_path / "none", tmp_path / "page.html")
    for preset in ("arpo", "grpo"):
        for seed in "01":
            (tmp_path / "compare" / preset / seed).mkdir(parents=True)
            (tmp_path / "compare" / preset / seed / "metrics.jsonl").touch()
    with pytest.raises(UsageError, match=r"holds 4 runs \(arpo/0, arpo/1, .*guiagent watch \S+/arpo/0$"):
        export(tmp_path / "compare", tmp_path / "page.html")


def test_a_mirrored_run_is_followed_without_its_weights(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run")
    (root / "checkpoints" / "step-000020" / "model.safetensors").write_bytes(b"weights")
    url = (tmp_path / "storage").as_uri()
    storage = Storage(url)
    storage.publish(Manifest(1, 1, "writer", Uploader(root, storage).upload({})))
    page = export(url, tmp_path / "page.html")
    assert "checkpoint of step 20" in page and "data:image/png;base64," in page
    copy = tmp_path / "copy"
    MirrorFollower(Storage(url), copy).round()
    assert (copy / "metrics.jsonl").read_bytes() == (root / "metrics.jsonl").read_bytes()
    assert not list(copy.rglob("*.safetensors"))
    object_ = next((tmp_path / "storage" / "objects").iterdir())
    object_.write_bytes(b"damaged")
    with pytest.raises(InfrastructureError, match="damaged"):
        export(url, tmp_path / "page.html")


def test_a_runs_folder_cannot_ask_for_a_token_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUIAGENT_TOKEN", "ours")
    (tmp_path / POOL).write_text("http://198.51.100.1:80\n")
    assert _endpoint(None, tmp_path) is None
    named = _endpoint("http://198.51.100.1:80", tmp_path)  # the user may
    assert named is not None and named.token == "ours"
    (tmp_path / POOL).write_text("x" * 10_000)
    assert _endpoint(None, tmp_path) is None
