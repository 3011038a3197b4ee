"""`dumpsys` and `cmd`: the parts of Android's services that tools query, in the format they expect."""

import re
import time
from collections.abc import Callable

from devices.phone.shell import activities, data, screen
from devices.phone.shell.activities import KEYBOARD, package_facts
from devices.phone.shell.intents import full_name
from devices.phone.shell.session import Call, Program, UsageFailure

DISPLAY_ID = 4619827259835644672


def _window(call: Call) -> str:
    phone = call.machine.phone
    if call.arguments[1:2] in (["policy"], ["p"]):
        awake = str(phone.screen_on).lower()
        return (
            "WINDOW MANAGER POLICY STATE (dumpsys window policy)\n"
            f"    mAwake={awake} mScreenOnEarly={awake} mScreenOnFully={awake}\n"
            "    KeyguardServiceDelegate\n      showing=false\n      mShowingLockscreen=false\n"
        )
    package, activity = phone.foreground()
    name = f"{package}/{full_name(package, activity)}"
    number = call.machine.pid(package)
    return (
        "WINDOW MANAGER WINDOWS (dumpsys window windows)\n"
        f"  Window #0 Window{{{number:x} u0 {name}}}:\n"
        f"    mDisplayId=0 mSession=Session{{{number:x}}} package={package}\n"
        f"    Requested w={phone.width} h={phone.height} mShowToOwnerOnly=false\n"
        f"  mCurrentFocus=Window{{{number:x} u0 {name}}}\n"
        f"  mFocusedApp=ActivityRecord{{{number:x} u0 {name} t1}}\n"
        f"  mImeShowing={str(phone.keyboard_shown()).lower()}\n"
        f"  init={phone.width}x{phone.height} {phone.density}dpi cur={phone.width}x{phone.height} "
        f"app={phone.width}x{phone.height}\n  mRotation=ROTATION_0 mAwake={str(phone.screen_on).lower()}\n"
    )


def _activity(call: Call) -> str:
    phone = call.machine.phone
    package, activity = phone.foreground()
    name = f"{package}/{full_name(package, activity)}"
    number = call.machine.pid(package)
    record = f"ActivityRecord{{{number:x} u0 {name} t1}}"
    return (
        "ACTIVITY MANAGER ACTIVITIES (dumpsys activity activities)\n"
        f"Display #0 (activities from top to bottom):\n  * Task{{{number:x} #1 type=standard A={package}}}\n"
        f"    topResumedActivity={record}\n    mResumedActivity: {record}\n"
        f"    * Hist  #0: {record}\n      packageName={package} processName={package}\n"
        f"  ResumedActivity: {record}\n  mFocusedApp={record}\n"
        f"TASK {package} id=1 userId=0\n  ACTIVITY {name} {number:x} pid={number}\n"
    )


def _input(call: Call) -> str:
    phone = call.machine.phone
    return (
        "INPUT MANAGER (dumpsys input)\n\nInput Reader State:\n"
        f"  Device 1: virtual touchscreen\n    SurfaceWidth: {phone.width}px\n"
        f"    SurfaceHeight: {phone.height}px\n    SurfaceOrientation: 0\n"
        "  Viewport INTERNAL: displayId=0, orientation=0, "
        f"logicalFrame=[0, 0, {phone.width}, {phone.height}]\n"
    )


def _input_method(call: Call) -> str:
    shown = str(call.machine.phone.keyboard_shown()).lower()
    return (
        "Current Input Method Manager state:\n"
        f"  mCurMethodId={KEYBOARD}\n  mInputShown={shown} mShowRequested={shown}\n"
        f"  mIsInputViewShown={shown}\n"
    )


def _battery(call: Call) -> str:
    level = call.machine.phone.state.settings_get("global", "battery_level") or "100"
    return (
        "Current Battery Service state:\n"
        "  AC powered: true\n  USB powered: false\n  Wireless powered: false\n"
        "  Max charging current: 0\n  Max charging voltage: 0\n  Charge counter: 0\n"
        "  status: 2\n  health: 2\n"
        f"  present: true\n  level: {level}\n  scale: 100\n  voltage: 5000\n  temperature: 250\n"
        "  technology: virtual\n"
    )


def _display(call: Call) -> str:
    phone = call.machine.phone
    state = "ON" if phone.screen_on else "OFF"
    return (
        "DISPLAY MANAGER (dumpsys display)\n"
        "  mViewports=[DisplayViewport{type=INTERNAL, valid=true, displayId=0, "
        f"orientation=0, logicalFrame=Rect(0, 0 - {phone.width}, {phone.height})}}]\n"
        f'  mBaseDisplayInfo=DisplayInfo{{"virtual screen", real {phone.width} x {phone.height}, '
        f"density {phone.density}, state {state}}}\n  mScreenState={state}\n"
    )


def _power(call: Call) -> str:
    on = call.machine.phone.screen_on
    return (
        f"POWER MANAGER (dumpsys power)\n  mWakefulness={'Awake' if on else 'Asleep'}\n"
        f"  mHoldingDisplaySuspendBlocker={str(on).lower()}\n"
    )


def _surface_flinger(call: Call) -> str:
    return f'Display {DISPLAY_ID} (HWC display 0): port=0 pnpId=GUI displayName="virtual screen"\n'


def _package(call: Call) -> str:
    names = [word for word in call.arguments[1:] if not word.startswith("-")]
    wanted = names[:1] or sorted(call.machine.phone.apps)
    if names and names[0] not in call.machine.phone.apps:
        return f"Unable to find package: {names[0]}\n"
    return "".join(package_facts(call, name) for name in wanted)


def _clipboard(call: Call) -> str:
    return f"Clipboard: {len(call.machine.phone.state.clipboard)} characters\n"


def _wifi(call: Call) -> str:
    on = call.machine.phone.state.settings_get("global", "wifi_on") == "1"
    return f"Wi-Fi is {'enabled' if on else 'disabled'}\n"


_SERVICES: dict[str, Callable[[Call], str]] = {
    "SurfaceFlinger": _surface_flinger,
    "activity": _activity,
    "battery": _battery,
    "clipboard": _clipboard,
    "display": _display,
    "input": _input,
    "input_method": _input_method,
    "package": _package,
    "power": _power,
    "wifi": _wifi,
    "window": _window,
}


async def dumpsys(call: Call) -> int:
    words = [word for word in call.arguments if not re.fullmatch(r"-t|--timeout|\d+", word)]
    if not words or words == ["-l"]:
        await call.say("Currently running services:\n" + "".join(f"  {name}\n" for name in sorted(_SERVICES)))
        return 0
    call.arguments = words
    if words[0] not in _SERVICES:
        return await call.complain(f"Can't find service: {words[0]}")
    await call.say(_SERVICES[words[0]](call))
    return 0


async def cmd(call: Call) -> int:
    match call.arguments:
        case ["package", *rest]:
            return await _as(call, activities.pm, "pm", rest)
        case ["activity" | "activity_task", *rest]:
            return await _as(call, activities.am, "am", rest)
        case ["settings", *rest]:
            return await _as(call, data.settings, "settings", rest)
        case ["input_method", *rest] | ["ime", *rest]:
            return await _as(call, activities.ime, "ime", rest)
        case ["window", *rest]:
            return await _as(call, screen.wm, "wm", rest)
        case ["input", *rest]:
            return await _as(call, screen.input_, "input", rest)
        case ["wifi", "set-wifi-enabled", state]:
            return await _as(call, data.svc, "svc", ["wifi", "enable" if state == "enabled" else "disable"])
        case ["wifi", "status"]:
            await call.say(_wifi(call))
        case ["bluetooth_manager", "enable" | "disable" as verb]:
            return await _as(call, data.svc, "svc", ["bluetooth", verb])
        case ["connectivity", "airplane-mode", *rest]:
            return await data.airplane(call, rest[0] if rest else "")
        case ["statusbar", *_] | ["uimode", *_] | ["notification", *_] | ["appops", *_]:
            pass  # taken and without effect: the shade opens by its key, and there is no night mode
        case ["-l"] | ["list"]:
            await call.say("".join(f"  {name}\n" for name in sorted(_SERVICES)))
        case [service, *_]:
            return await call.complain(f"cmd: Can't find service: {service}")
        case _:
            raise UsageFailure("cmd: No service specified; use -l to list all services", 20)
    return 0


async def _as(call: Call, program: Program, name: str, arguments: list[str]) -> int:
    call.name, call.arguments = name, arguments
    return await program(call)


async def uptime(call: Call) -> int:
    minutes = int(time.monotonic() - call.machine.booted) // 60
    await call.say(f" up {minutes} min,  0 users,  load average: 0.00, 0.00, 0.00\n")
    return 0


PROGRAMS: dict[str, Program] = {"dumpsys": dumpsys, "cmd": cmd, "uptime": uptime}
