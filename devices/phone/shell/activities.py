"""Shell commands for apps: `am`, `pm`, `monkey` and `ime`, which `cmd` calls by other names."""

from itertools import pairwise

from devices.phone.shell import intents
from devices.phone.shell.intents import Intent, full_name, short_component
from devices.phone.shell.session import Call, Program, UsageFailure

KEYBOARD = "com.guiagent.keyboard/.Keyboard"
_NO_INSTALL = (
    "Failure [INSTALL_FAILED_USER_RESTRICTED: this is a virtual phone with web apps of its own; "
    "it cannot run an APK]"
)
_STREAMED_MAX = 4 << 30


async def am(call: Call) -> int:
    machine = call.machine
    match call.arguments:
        case ["start" | "start-activity", *rest]:
            return await _start(call, intents.parse(rest))
        case ["force-stop" | "kill", *rest] if rest:
            await machine.do(machine.phone.stop_app(rest[-1]))
            machine.note("ActivityManager", f"Force stopping {rest[-1]}", package=rest[-1])
        case ["kill-all"]:
            pass
        case ["broadcast", *rest]:
            intent = intents.parse(rest)
            machine.note("ActivityManager", f"broadcast {intent}")
            await call.say(f"Broadcasting: {intent}\nBroadcast completed: result=0\n")
        case ["stack", "list"] | ["stack", "info", *_]:
            await call.say(_tasks(call))
        case ["get-current-user"]:
            await call.say("0\n")
        case ["get-config"]:
            phone = machine.phone
            await call.say(f"config: en-rUS-ldltr-port-{phone.density}dpi-finger-v34\nabi: none\n")
        case ["startservice" | "start-service" | "start-foreground-service" | "instrument", *_]:
            return await call.complain("Error: Not found; no service started.")
        case _:
            raise UsageFailure(
                "Activity manager (activity) commands: start, force-stop, broadcast, stack list", 255
            )
    return 0


async def _start(call: Call, intent: Intent) -> int:
    machine = call.machine
    if intents.HOME in intent.categories:
        await machine.do(machine.phone.key(3))
        await call.say(f"Starting: {intent}\n")
        return 0
    await call.say(f"Starting: {intent}\n")
    found = intents.resolve(intent, machine.phone.apps)
    if found is None:
        if intent.component:
            package, activity = intents.split_component(intent.component)
            name = f"{{{package}/{activity}}}"
            await call.complain(f"Error type 3\nError: Activity class {name} does not exist.")
        else:
            await call.complain(f"Error: Activity not started, unable to resolve {intent}")
        return 1
    package, activity = found
    if intent.stop_first:
        await machine.do(machine.phone.stop_app(package))
    extras = intent.extras | ({"action": intent.action} if intent.action else {})
    await machine.do(machine.phone.launch(package, activity, intent.data or None, extras))
    machine.note("ActivityTaskManager", f"START u0 {intent} from uid 2000", package=package)
    if intent.wait:
        component = short_component(package, full_name(package, activity))
        await call.say(
            f"Status: ok\nLaunchState: COLD\nActivity: {component}\nTotalTime: 0\nWaitTime: 0\nComplete\n"
        )
    return 0


def _tasks(call: Call) -> str:
    phone = call.machine.phone
    package, activity = phone.foreground()
    component = short_component(package, full_name(package, activity))
    return (
        f"RootTask id=1 bounds=[0,0][{phone.width},{phone.height}] displayId=0 userId=0\n"
        f"  taskId=1: {component} bounds=[0,0][{phone.width},{phone.height}] userId=0 visible=true "
        f"topActivity=ComponentInfo{{{package}/{full_name(package, activity)}}}\n"
    )


async def monkey(call: Call) -> int:
    """`monkey -p PACKAGE [-c CATEGORY] 1`: launch an app; other uses are not supported."""
    words = call.arguments
    packages = [word for option, word in pairwise(words) if option == "-p"]
    if not packages or not words[-1].isdecimal():
        raise UsageFailure("usage: monkey -p ALLOWED_PACKAGE [-c MAIN_CATEGORY] COUNT", 255)
    app = call.machine.phone.apps.get(packages[0])
    if app is None:
        await call.say("** No activities found to run, monkey aborted.\n")
        return 252
    intent = Intent(action=intents.MAIN, package=app.package, categories=[intents.LAUNCHER])
    await call.machine.do(call.machine.phone.launch(app.package))
    call.machine.note("ActivityTaskManager", f"START u0 {intent} from uid 2000", package=app.package)
    await call.say("Events injected: 1\n## Network stats: elapsed time=0ms\n")
    return 0


async def pm(call: Call) -> int:
    machine = call.machine
    apps = machine.phone.apps
    match call.arguments:
        case ["list", "packages" | "package", *rest]:
            wanted = [word for word in rest if not word.startswith("-")]
            names = sorted(name for name in apps if not wanted or wanted[-1] in name)
            if "-3" in rest or "-d" in rest:
                names = []  # every app comes with the phone, and none can be disabled
            path = "/system/app/{0}/base.apk={0}" if "-f" in rest else "{0}"
            await call.say("".join(f"package:{path.format(name)}\n" for name in names))
        case ["list", "features"]:
            await call.say("feature:android.hardware.touchscreen\n")
        case ["list", "users"]:
            await call.say("Users:\n\tUserInfo{0:Owner:c13} running\n")
        case ["list", "permissions" | "permission-groups" | "instrumentation" | "libraries", *_]:
            pass
        case ["path", *rest] if rest and rest[-1] in apps:
            await call.say(f"package:/system/app/{rest[-1]}/base.apk\n")
        case ["path", *_]:
            return 1
        case ["clear", *rest] if rest and rest[-1] in apps:
            await machine.do(machine.phone.stop_app(rest[-1]))
            machine.phone.state.clear(rest[-1])
            machine.note("PackageManager", f"cleared {rest[-1]}", package=rest[-1])
            await call.say("Success\n")
        case ["clear", *_]:
            await call.say("Failed\n")
            return 1
        case ["dump", package] if package in apps:
            await call.say(package_facts(call, package))
        case ["resolve-activity", *rest]:
            return await _resolve(call, rest)
        case ["query-activities", *rest]:
            await call.say(_query(call, rest))
        case ["grant" | "revoke", *_] | ["set-permission-flags", *_] | ["enable" | "unsuspend", *_]:
            pass  # the apps' permissions are fixed in their manifests
        case ["install" | "install-create" | "install-write" | "install-existing" | "install-commit", *rest]:
            await _swallow(call, rest)
            await call.say(f"{_NO_INSTALL}\n")
            return 1
        case ["uninstall" | "disable-user" | "disable", *_]:
            await call.say(
                "Failure [DELETE_FAILED_INTERNAL_ERROR: the apps of a virtual phone are part of it]\n"
            )
            return 1
        case _:
            raise UsageFailure("Package manager (package) commands: list, path, clear, dump, install", 255)
    return 0


def _query(call: Call, arguments: list[str]) -> str:
    words = [word for word in arguments if word not in ("--brief", "--components")]
    found = intents.every(intents.parse(words), call.machine.phone.apps)
    names = [(package, full_name(package, activity)) for package, activity in found]
    if "--components" in arguments:
        return "".join(f"{short_component(*name)}\n" for name in names)
    text = f"{len(names)} activities found:\n" if names else "No activities found\n"
    for number, (package, activity) in enumerate(names):
        text += f"  Activity #{number}:\n    priority=0 preferredOrder=0 match=0x108000 isDefault=false\n"
        if "--brief" in arguments:
            text += f"    {short_component(package, activity)}\n"
        else:
            text += f"    ActivityInfo:\n      name={activity}\n      packageName={package}\n"
    return text


async def _resolve(call: Call, arguments: list[str]) -> int:
    brief = "--brief" in arguments
    found = intents.resolve(
        intents.parse([word for word in arguments if word not in ("--brief", "--components")]),
        call.machine.phone.apps,
    )
    if found is None:
        await call.say("No activity found\n")
        return 0
    component = short_component(found[0], full_name(*found))
    await call.say(f"priority=0 preferredOrder=0 match=0x0\n{component}\n" if brief else f"{component}\n")
    return 0


async def _swallow(call: Call, arguments: list[str]) -> None:
    """Discard the APK that adb streams: adb listens for an answer only after the last byte."""
    sizes = [word for option, word in pairwise(arguments) if option == "-S"]
    left = min(int(sizes[0]), _STREAMED_MAX) if sizes and sizes[0].isdecimal() else 0
    while left > 0 and (chunk := await call.stdin.read()):
        left -= len(chunk)


def package_facts(call: Call, package: str) -> str:
    app = call.machine.phone.apps[package]
    numbers = [int(part) for part in app.version.split(".") if part.isdecimal()]
    code = sum(number * 100**place for place, number in enumerate(reversed(numbers)))
    granted = "".join(f"      {name}: granted=true\n" for name in sorted(app.permissions))
    activities = "".join(
        f"        {short_component(package, full_name(package, one.name))}\n" for one in app.activities
    )
    return (
        f"Activity Resolver Table:\n  Non-Data Actions:\n      android.intent.action.MAIN:\n{activities}\n"
        f"Packages:\n  Package [{package}] ({call.machine.pid(package):x}):\n"
        f"    userId={10000 + call.machine.pid(package)}\n"
        f"    versionCode={code} minSdk=34 targetSdk=34\n"
        f"    versionName={app.version}\n"
        f"    dataDir=/data/user/0/{package}\n"
        f"    pkgFlags=[ SYSTEM HAS_CODE ]\n"
        f"    User 0: installed=true hidden={str(app.hidden).lower()} stopped=false enabled=0\n"
        f"    install permissions:\n{granted}"
    )


async def ime(call: Call) -> int:
    match call.arguments:
        case ["list", *rest]:
            await call.say(f"{KEYBOARD}\n" if "-s" in rest else f"{KEYBOARD}:\n  mId={KEYBOARD}\n")
        case ["set" | "enable", name] if name == KEYBOARD:
            await call.say(f"Input method {name} selected for user #0\n")
        case ["set" | "enable" | "disable", name]:
            return await call.complain(f"Unknown input method {name} cannot be selected for user #0")
        case ["reset"]:
            pass
        case _:
            raise UsageFailure("ime <command>: list [-a] [-s], enable ID, disable ID, set ID, reset", 255)
    return 0


PROGRAMS: dict[str, Program] = {"am": am, "monkey": monkey, "pm": pm, "ime": ime}
