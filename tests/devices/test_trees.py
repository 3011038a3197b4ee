"""One vocabulary of accessibility: what each kind of device tells, as nodes."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from devices.drivers import atspi
from devices.drivers.android import tree as android
from devices.drivers.atspi import Told
from devices.drivers.browser import tree as page
from devices.drivers.browser.device import BrowserDevice
from devices.drivers.remote import xml_tree
from guiagent.errors import FaultError
from guiagent.nodes import ROLES
from guiagent.types import MAX_NAME, Node, Observation, ObserveSpec
from tests.support.browser_pages import BLIND, document, running

TREE = ObserveSpec(frame="none", tree=True)
FORM = """<title>t</title><style>body { margin: 0 } iframe { width: 200px; height: 40px; border: 0 }</style>
<label for=u>User name</label> <input id=u value=bob required>
<label>Password <input type=password value=secret></label>
<input type=checkbox checked aria-label=Remember> <input type=submit disabled>
<input type=search placeholder=Find>
<select aria-label=Colour><option>red<option selected>blue</select>
<button aria-pressed=true>Bold <i>type</i></button>
<button><img alt=Send src=data:,></button> <a href=#x>Help <b>me</b></a> <h1>Welcome <a href=#y>here</a></h1>
<p>Hello <b>World</b></p> <div role=tab aria-selected=true>Mail</div> <div role=boo>odd</div>
<p aria-hidden=true>decor</p>
<details><summary>More</summary>folded</details> <textarea aria-labelledby=l1>text</textarea>
<span id=l1>Notes</span>
<div onclick="1">pressable</div>
<div style="height: 20px; overflow: hidden"><p style="margin-top: 30px">clipped</p></div>"""

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[BrowserDevice]:
    async with running(width=640, height=480) as started:
        yield started


async def shown(browser: BrowserDevice, html: str) -> list[Node]:
    await browser.reset(0, document(html), BLIND)
    return (await browser.observe(TREE)).tree or []


async def test_a_page_is_told_in_roles_names_and_states(browser: BrowserDevice) -> None:
    nodes = await shown(browser, FORM)
    told = {(node.role, node.name, node.value, node.states) for node in nodes}
    assert told >= {
        ("textbox", "User name", "bob", ("editable", "required")),
        ("textbox", "Password", "", ("editable", "password")),
        ("checkbox", "Remember", "", ("checked",)),
        ("button", "Submit", "", ("disabled",)),
        ("searchbox", "Find", "", ("editable",)),
        ("combobox", "Colour", "blue", ("collapsed",)),
        ("button", "Bold type", "", ("pressed",)),
        ("button", "Send", "", ()),
        ("link", "Help me", "", ()),
        ("heading", "Welcome here", "", ()),
        ("link", "here", "", ()),
        ("paragraph", "Hello", "", ()),
        ("text", "World", "", ()),
        ("tab", "Mail", "", ("selected",)),
        ("text", "odd", "", ()),
        ("button", "More", "", ("collapsed",)),
        ("textbox", "Notes", "text", ("editable",)),
        ("text", "pressable", "", ("clickable",)),
    }
    assert not {"decor", "folded", "clipped", "secret", "me"} & {node.name for node in nodes}
    assert "secret" not in repr(nodes)
    parents = {node.id: node for node in nodes}
    [link] = [node for node in nodes if node.name == "here"]
    assert parents[link.parent or ""].role == "heading"


async def test_names_are_those_of_chromiums_own_accessibility_tree(browser: BrowserDevice) -> None:
    nodes = await shown(browser, FORM)
    own = await browser._tabs.current.post("Accessibility.getFullAXTree")
    theirs = {
        (node["role"]["value"], node["name"]["value"].strip())
        for node in own["nodes"]
        if not node["ignored"] and "name" in node
    }
    names = {"DisclosureTriangle": "button"}
    theirs = {(names.get(role, role), name) for role, name in theirs}
    controls = {"button", "checkbox", "combobox", "heading", "link", "searchbox", "tab", "textbox"}
    ours = {(node.role, node.name) for node in nodes if node.role in controls}
    assert len(ours) > 12
    assert ours <= theirs
    assert {one for one in theirs if one[0] in controls} <= ours


async def test_shadow_roots_and_frames_are_part_of_the_page(browser: BrowserDevice) -> None:
    html = """<body style="margin:0"><div id=host style="height:40px"><b slot=s>slotted</b></div>
    <iframe style="border:0; height:60px" srcdoc="<body style='margin:0'><button>inner</button>"></iframe>
    <script>
      host.attachShadow({mode: 'open'}).innerHTML = '<button>shady</button><slot name=s></slot>'
    </script>"""
    nodes = {node.name: node for node in await shown(browser, html)}
    assert {"shady", "slotted", "inner"} <= set(nodes)
    left, top, width, height = nodes["inner"].box
    at = await browser.observe(
        ObserveSpec("none", probes={"top": "document.querySelector('iframe').getBoundingClientRect().top"})
    )
    assert (left, top) == (0, round(at.probes["top"])) and width > 10 and height > 10


async def test_fields_may_be_called_as_a_forms_own_properties_are(browser: BrowserDevice) -> None:
    names = ("children", "labels", "type", "title", "value", "inert", "tabIndex", "parent", "id")
    fields = "".join(f"<input name={name} aria-label={name}>" for name in names)
    label = "<label><span>wrapped</span><input></label>"
    nodes = await shown(browser, f"<form title=booking>{fields}{label}</form>")
    assert [node.name for node in nodes] == ["booking", *names, "wrapped", "wrapped"]


@pytest.mark.parametrize(
    "lie",
    [
        "Array.prototype.push = () => { throw 1 }",
        "Math.round = () => 'x'",
        "Math.round = () => 1e300",
        "Array.prototype.map = () => ({length: 4})",
        "String.prototype.slice = () => 'x'.repeat(1e5)",
    ],
)
async def test_a_page_that_spoils_its_tree_ends_in_a_fault(browser: BrowserDevice, lie: str) -> None:
    with pytest.raises(FaultError) as raised:
        await shown(browser, f"<button>b</button><script>{lie}</script>")
    assert raised.value.fault.origin == "task"
    assert len(str(raised.value)) < 400
    assert [node.name for node in await shown(browser, "<button>well</button>")] == ["well"]


async def test_a_role_that_there_is_not_is_none() -> None:
    told = [{"role": "button"}, {"role": "owner"}, {"role": "owner", "name": "x"}]
    assert [node.role for node in page.nodes(told)] == ["button", "generic", "text"]
    junk: Any
    for junk in (None, 7, [7], [{}], [{"role": "b", "box": [1, 2]}], [{"role": "b", "states": ["big"]}]):
        with pytest.raises(FaultError, match="no_tree"):
            page.nodes(junk)


@pytest.mark.parametrize(
    ("told", "node"),
    [
        (Told("push button", "OK", 3, 1, box=(1, 2, 3, 4)), Node("button", "OK", (1, 2, 3, 4), "3", "1")),
        (Told("push-button", "OK"), Node("button", "OK")),
        (Told("button", "OK", states=("disabled", "showing")), Node("button", "OK", states=("disabled",))),
        (Told("toggle button", "B", states=("checked",)), Node("button", "B", states=("pressed",))),
        (Told("check box", "C", states=("indeterminate",)), Node("checkbox", "C", states=("mixed",))),
        (Told("combo box", "D", states=("expandable",)), Node("combobox", "D", states=("collapsed",))),
        (Told("password text", "PIN", value="1234"), Node("textbox", "PIN", states=("password",))),
        (Told("entry", value="words"), Node("textbox", value="words")),
        (Told("label", value="words"), Node("text", "words")),
        (Told("table cell", "A1", states=("selectable",)), Node("gridcell", "A1", states=("selectable",))),
        (Told("list item", "one"), Node("listitem", "one")),
        (Told("menu", "File"), Node("menuitem", "File")),
        (Told("frame", "Editor", states=("active",)), Node("window", "Editor", states=("active",))),
        (Told("redundant object", "?", box=(5, 5, 0, 9)), Node("generic", "?")),
    ],
    ids=lambda one: f"{one.role} {one.name}",
)
async def test_the_words_of_at_spi(told: Told, node: Node) -> None:
    assert atspi.nodes([told]) == [node]


async def test_whatever_a_guest_tells_is_bounded() -> None:
    told = atspi.Told("label" * 10**5, "n" * 10**6, "i" * 10**6, "p" * 10**6, "v" * 10**6)
    found = atspi.nodes([told] * 5000)
    assert len(found) == atspi.MAX_NODES
    assert len(found[0].name) == MAX_NAME
    encoded = msgspec.msgpack.encode(Observation(1, 1, tree=found[:1]))
    assert msgspec.msgpack.decode(encoded, type=Observation).tree == found[:1]


async def test_every_role_that_a_driver_gives_is_in_the_vocabulary() -> None:
    assert set(atspi._ROLES.values()) | set(atspi._IF_SELECTABLE.values()) <= ROLES
    assert set(android._ROLES.values()) <= ROLES
    assert {*atspi._HAVE_VALUES} <= ROLES


XML = """<desktop-frame xmlns:st="uri:state" xmlns:cp="uri:component" xmlns:val="uri:value">
<frame name="Editor" st:active="true" st:enabled="true" cp:screencoord="(0, 0)" cp:size="(300, 200)"><panel>
<push-button name="Save" st:enabled="true" cp:screencoord="(10, 20)" cp:size="(30, 40)"/>
<panel name="nowhere" cp:screencoord="(-1, -1)" cp:size="(0, 0)"/>
<push-button name="Undo" st:showing="true" cp:screencoord="(50, 20)" cp:size="(30, 40)"/>
<entry st:enabled="true" cp:screencoord="(90, 20)" cp:size="(30, 40)" val:value="7">words</entry>
</panel></frame></desktop-frame>"""


async def test_osworlds_xml() -> None:
    assert atspi.nodes(xml_tree.told(XML)) == [
        Node("window", "Editor", (0, 0, 300, 200), "0", states=("active",)),
        Node("button", "Save", (10, 20, 30, 40), "1", "0"),
        Node("button", "Undo", (50, 20, 30, 40), "2", "0", states=("disabled",)),
        Node("textbox", "", (90, 20, 30, 40), "3", "0", "words"),
    ]


@pytest.mark.parametrize(
    ("view", "node"),
    [
        ('class="android.widget.EditText" text="bob"', Node("textbox", value="bob", states=("editable",))),
        (
            'class="android.widget.EditText" text="••••" content-desc="PIN" password="true"',
            Node("textbox", "PIN", states=("editable", "password")),
        ),
        (
            'class="android.widget.EditText" text="Search" hint="Search"',
            Node("textbox", "Search", states=("editable",)),
        ),
        ('class="a.SwitchCompat" text="Wifi" checked="true"', Node("switch", "Wifi", states=("checked",))),
        ('class="android.widget.CheckBox" text="Yes"', Node("checkbox", "Yes")),
        ('class="a.MaterialButton" text="OK" enabled="false"', Node("button", "OK", states=("disabled",))),
        ('class="android.view.View" clickable="true"', Node("generic", states=("clickable",))),
        ('class="android.view.View" text="words"', Node("text", "words")),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
async def test_the_words_of_android(view: str, node: Node) -> None:
    xml = f'<?xml version="1.0"?><hierarchy><node {view} bounds="[0,0][9,9]"/></hierarchy>'
    expected: Any = msgspec.structs.replace(node, box=(0, 0, 9, 9), id="0")
    assert android.parse(xml.encode(), 100, 100) == [expected]
