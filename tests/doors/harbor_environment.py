"""An environment of Harbor's that needs no Docker: a root of its own in a temporary folder, by bubblewrap.

Of a Dockerfile it knows FROM, which is this machine's own system, WORKDIR, and COPY of a file or folder.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult

_SYSTEM = [place for place in ("/usr/bin", "/usr/lib", "/usr/lib64", "/etc") if Path(place).is_dir()]


class Local(BaseEnvironment):
    _root: Path
    _workdir = "/"

    @staticmethod
    def type() -> str:
        return "local"

    def _validate_definition(self) -> None:
        assert (self.environment_dir / "Dockerfile").is_file()

    async def start(self, force_build: bool) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="harbor-"))
        for name in ("bin", "lib", "lib64"):
            (self._root / name).symlink_to(f"usr/{name}")
        for line in (self.environment_dir / "Dockerfile").read_text().splitlines():
            word, *names = line.split()
            if word == "WORKDIR":
                self._workdir = names[0]
                self._at(names[0]).mkdir(parents=True)
            elif word == "COPY" and (source := self.environment_dir / names[0]).is_dir():
                await self.upload_dir(source, names[1])
            elif word == "COPY":
                await self.upload_file(source, names[1])
        await self.ensure_dirs(["/logs/agent", "/logs/verifier", "/logs/artifacts", "/tests"])

    async def stop(self, delete: bool) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    def _at(self, path: str) -> Path:
        return self._root / str(path).lstrip("/")

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        self._at(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self._at(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self._at(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy(self._at(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self._at(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        words: list[Any] = ["bwrap", "--bind", self._root, "/", "--dev", "/dev", "--proc", "/proc"]
        for place in _SYSTEM:
            words += ["--ro-bind", place, place]
        words += [
            "--dir",
            "/tmp",
            "--chdir",
            cwd or self._workdir,
            "--die-with-parent",
            "/bin/bash",
            "-c",
            command,
        ]
        variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", **(self._merge_env(env) or {})}
        done = await asyncio.create_subprocess_exec(
            *map(str, words), env=variables, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            said, wrong = await asyncio.wait_for(done.communicate(), timeout_sec)
        except TimeoutError:
            done.kill()
            await done.wait()
            return ExecResult(stderr="it took too long", return_code=124)
        return ExecResult(
            stdout=said.decode(errors="replace"),
            stderr=wrong.decode(errors="replace"),
            return_code=int(done.returncode or 0),
        )
