"""What hostile programs try from inside a sandbox, as functions that answer whether it worked.

`ESCAPES` is Python that any interpreter can run; each of its functions takes nothing and returns a bool. One
looks for a variable `SECRET`, which whoever starts the sandbox has to have in its environment.
"""

SECRET = "SECRET_OF_THE_HOST"

ESCAPES = """
import ctypes, os, platform, socket

libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {"x86_64": (101, 425, 321, 272), "aarch64": (117, 425, 280, 97)}
PTRACE, IO_URING, BPF, UNSHARE = NUMBERS[platform.machine()]

def status(name):
    return next(line.split()[1] for line in open("/proc/self/status") if line.startswith(name + ":"))

def is_root():
    return os.getuid() == 0 or os.geteuid() == 0

def has_capabilities():
    return any(int(status(name), 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd"))

def may_gain_privileges():
    return status("NoNewPrivs") == "0"

def is_unfiltered():
    return status("Seccomp") == "0"

def reads_the_hosts_environment():
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if b"SECRET_OF_THE_HOST=" in open(f"/proc/{process}/environ", "rb").read():
                return True
        except OSError:
            pass
    return False

def remounts():
    return libc.mount(b"", b"/usr", b"", 32 | 4096, None) == 0  # MS_REMOUNT | MS_BIND: writable

def makes_user_namespace():
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os._exit(0 if libc.syscall(UNSHARE, 0x10000000) == 0 else 1)

def clones_user_namespace():
    child = libc.syscall(56 if platform.machine() == "x86_64" else 220, 0x10000000 | 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    return child > 0

def traces():
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os._exit(0 if libc.syscall(PTRACE, 0, 0, 0, 0) == 0 else 1)  # PTRACE_TRACEME

def has_io_uring():
    return libc.syscall(IO_URING, 1, ctypes.create_string_buffer(256)) >= 0

def reaches_bpf():
    libc.syscall(BPF, 0, ctypes.create_string_buffer(128), 128)
    return ctypes.get_errno() != 1  # EPERM is the filter's, which comes before the kernel's own EINVAL

def opens_family():
    try:
        socket.socket(38, socket.SOCK_SEQPACKET).close()  # AF_ALG: the kernel's own cryptography
        return True
    except OSError:
        return False
"""
ATTEMPTS = [line[4:].partition("(")[0] for line in ESCAPES.splitlines() if line.startswith("def ")]
ATTEMPTS.remove("status")
