"""Intents: parsing the arguments of `am`, and finding the app that handles them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from devices.phone.apps import App, handlers
from devices.phone.apps import resolve as find
from devices.phone.shell.session import UsageFailure

MAIN = "android.intent.action.MAIN"
VIEW = "android.intent.action.VIEW"
LAUNCHER = "android.intent.category.LAUNCHER"
HOME = "android.intent.category.HOME"

_ONE_VALUE = {"-a": "action", "-d": "data", "-t": "type", "-p": "package", "-n": "component"}
_EXTRAS = frozenset(
    ("-e", "--es", "--ez", "--ei", "--el", "--ef", "--eu", "--ecn", "--eia", "--ela", "--esa")
)
_IGNORED_WITH_VALUE = frozenset(
    ("-f", "--user", "-i", "--display", "--windowingMode", "-R", "--activity-task")
)


@dataclass(slots=True)
class Intent:
    action: str = ""
    data: str = ""
    type: str = ""
    package: str = ""
    component: str = ""
    categories: list[str] = field(default_factory=list)
    extras: dict[str, str] = field(default_factory=dict)
    wait: bool = False
    stop_first: bool = False

    def __str__(self) -> str:
        fields = [f"act={self.action}" if self.action else ""]
        fields.append(f"cat=[{','.join(self.categories)}]" if self.categories else "")
        fields.append(f"dat={self.data}" if self.data else "")
        fields.append(f"typ={self.type}" if self.type else "")
        fields.append(
            f"cmp={self.component}" if self.component else f"pkg={self.package}" if self.package else ""
        )
        fields.append("(has extras)" if self.extras else "")
        return f"Intent {{ {' '.join(filter(None, fields))} }}"


def parse(arguments: Sequence[str]) -> Intent:
    """Parse the arguments of `am start`. Raises UsageFailure."""
    intent, rest = Intent(), list(arguments)

    def following(option: str) -> str:
        if not rest:
            raise UsageFailure(f"Error: Argument expected after {option!r}", 255)
        return rest.pop(0)

    while rest:
        word = rest.pop(0)
        if word in _ONE_VALUE:
            setattr(intent, _ONE_VALUE[word], following(word))
        elif word in _EXTRAS:
            name = following(word)
            intent.extras[name] = following(word)
        elif word == "--esn":
            intent.extras[following(word)] = ""
        elif word == "-c":
            intent.categories.append(following(word))
        elif word in _IGNORED_WITH_VALUE:
            following(word)
        elif word == "-W":
            intent.wait = True
        elif word == "-S":
            intent.stop_first = True
        elif word.startswith("-"):
            if not word.startswith(("--activity", "--grant", "--receiver", "--include", "--exclude", "-D")):
                raise UsageFailure(f"Error: Unknown option: {word}", 255)
        elif ":" in word:
            intent.action, intent.data = intent.action or VIEW, word
        elif "/" in word:
            intent.component = word
        else:
            intent.package = word
    return intent


def split_component(component: str) -> tuple[str, str]:
    """Split `pkg/.Name` or `pkg/full.Name` into package and full class name."""
    package, _, activity = component.partition("/")
    return package, package + activity if activity.startswith(".") else activity


def short_component(package: str, activity: str) -> str:
    own = activity.startswith(f"{package}.")
    return f"{package}/{activity[len(package) :] if own else activity}"


def resolve(intent: Intent, apps: Mapping[str, App]) -> tuple[str, str] | None:
    """Package and activity (as its manifest names it) that handle `intent`; None if no app does."""
    if intent.component:
        package, wanted = split_component(intent.component)
        app = apps.get(package)
        names = [one.name for one in app.activities if full_name(package, one.name) == wanted] if app else []
        return (package, names[0]) if names else None
    if intent.package and intent.action in ("", MAIN):
        return (intent.package, apps[intent.package].activity) if intent.package in apps else None
    candidates = {name: app for name, app in apps.items() if intent.package in ("", name)}
    return find(candidates, intent.action, intent.data, intent.type)


def every(intent: Intent, apps: Mapping[str, App]) -> list[tuple[str, str]]:
    """Every package and activity that handles `intent`; for the launcher's, one of each app it shows."""
    if LAUNCHER in intent.categories:
        return [(app.package, app.activity) for app in apps.values() if not app.hidden]
    if intent.component or (intent.package and intent.action in ("", MAIN)):
        found = resolve(intent, apps)
        return [found] if found else []
    candidates = {name: app for name, app in apps.items() if intent.package in ("", name)}
    return list(handlers(candidates, intent.action, intent.data, intent.type))


def full_name(package: str, activity: str) -> str:
    return package + activity if activity.startswith(".") else activity
