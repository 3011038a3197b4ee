"""The command of a sandbox: what every one of them has in common, and whether this machine allows it."""

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from guiagent.errors import InfrastructureError
from guiagent.sandbox import launch
from guiagent.sandbox.launch import Plan
from guiagent.sandbox.seccomp import denials

NOBODY = 65534
SYSTEM_LINKS = {
    place: goal
    for place, goal in {
        "bin": "usr/bin",
        "sbin": "usr/sbin",
        "lib": "usr/lib",
        "lib32": "usr/lib32",
        "lib64": "usr/lib64",
    }.items()
    if Path("/", goal).is_dir()
}
_TRIAL_S = 60.0


def bubblewrap(
    command: Sequence[str], environment: Mapping[str, str], user: int = NOBODY, hostname: str = "sandbox"
) -> list[str]:
    """Bubblewrap's command line for a `Plan`: this command with this environment alone, as `user`.

    It has its own processes, network, IPC, host name and users, may make no further user namespaces, and has
    no capabilities. It writes to the plan's disk and nowhere else.
    """
    variables = [part for name, value in environment.items() for part in ("--setenv", name, value)]
    return [
        *("bwrap", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"),
        *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *("--uid", str(user), "--gid", str(user), "--hostname", hostname),
        *("--bind", str(launch.ROOT), "/", "--proc", "/proc", "--dev", "/dev"),
        # bubblewrap's own file system for /dev has no quota
        *("--bind", str(launch.DISK / "shm"), "/dev/shm", "--remount-ro", "/dev", "--chdir", "/"),
        *("--die-with-parent", "--new-session", "--clearenv", *variables, "--", *command),
    ]


def command(plan: Plan) -> list[str]:
    """The command that builds the sandbox and runs in it what the plan says.

    Raises:
        InfrastructureError: there is no system call filter for this kind of machine.
    """
    code = base64.b64encode(denials()).decode()
    return [sys.executable, "-I", "-S", launch.__file__, json.dumps(plan), code]


def why_not_isolated(plan: Plan) -> str:
    """Why this host does not run the plan, whose command does nothing; "" if it does.

    Raises:
        TimeoutError: it did not end within a minute, which does not tell whether sandboxes are allowed.
    """
    if shutil.which("bwrap") is None:
        return "bwrap is missing: apt-get install bubblewrap"
    try:
        tried = subprocess.run(command(plan), capture_output=True, text=True, timeout=_TRIAL_S)
    except InfrastructureError as error:
        return str(error)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"a sandbox did not start within {_TRIAL_S:g} s") from None
    if tried.returncode == 0:
        return ""
    said = (tried.stderr.strip().splitlines() or [f"bwrap ended with {tried.returncode}"])[-1][-200:]
    return f"bubblewrap 0.8 is needed: {said}" if "nknown option" in said else said
