"""What the documentation shows works: code runs, configuration is accepted, commands exist."""

import asyncio
import os
import re
import shutil
from pathlib import Path

import aiohttp
import pytest
import yarl

from anabranch import config, events
from anabranch.config import parse
from anabranch.sinks.agui import parse as agui
from tests import oracles
from tests.serving import served

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(
        language, code, id=f"{page.name}:{page.read_text(encoding='utf-8')[: found.start()].count(chr(10)) + 1}"
    )
    for page in PAGES
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    for language, code in [found.groups()]
]


def blocks(page, language):
    """The blocks of a page of the documentation in one language."""
    return [block.values[1] for block in BLOCKS if block.values[0] == language and block.id.startswith(f"{page}:")]


@pytest.mark.parametrize(("language", "code"), BLOCKS)
def test_every_block_of_the_documentation_is_true(language, code):
    if language == "python":
        exec(compile(code, "a page", "exec"), {"__name__": "a page"})
    elif language == "yaml":
        # A page may show one section; it needs an agent to be a configuration.
        parse(code if "agents:" in code else code + "\nagents: {a: {python: 'm:a'}}\n")
    elif language == "json":
        agui.parse(code.encode())
    elif language == "js":
        assert code in blocks("coming-back.md", "js")  # which is run below
    else:
        assert language == "sh"
        made = re.findall(r"^make (\w+)", code, re.M)
        targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
        assert set(made) <= set(targets)


def test_every_link_of_the_documentation_leads_somewhere():
    pages = [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_route_of_the_readme_is_served():
    import anabranch

    async def nobody(request):
        yield ""

    served = {re.sub(r"{\w+:path}", "{id}", route.path) for route in anabranch.App({"a": nobody})._asgi.routes}
    shown = re.findall(r"`(?:GET|POST|HEAD)?`?,? ?`?(/[a-z{}/_]*)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert {*shown} <= served | {"/"}


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_an_example_configuration_is_accepted(path):
    parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("program", "said"),
    [("echo.py", "hello"), ("tool_lane.py", "hit 1 for anabranch. hit 2 for anabranch. hit 3 for anabranch. Done.")],
)
async def test_an_example_answers(program, said):
    names = {"__name__": "example"}
    exec(compile((ROOT / "examples" / program).read_text(encoding="utf-8"), program, "exec"), names)
    question = {"id": "m", "role": "user", "content": "hello"}
    async with served(names["app"]) as url, aiohttp.ClientSession() as http, asyncio.timeout(20):
        body = {"threadId": "t", "runId": "r", "protocolVersion": "1.0", "messages": [question]}
        async with http.post(f"{url}/agui", json=body) as response:
            heard = list(oracles.events(await response.read()))
    assert "".join(event["delta"] for event in heard if event["type"] == "TEXT_MESSAGE_CONTENT") == said
    assert heard[-1]["type"] == "RUN_FINISHED"


@pytest.mark.parametrize(
    ("program", "client", "said"),
    [
        ("coming_back.py", "read", "0 1 2 3 4 5 6 7 8 9 "),
        ("a2a.py", "talk", ["Looking at the cluster. ", "Restart 3 pods?", "Restarted."]),
        ("threads.py", "talk", ["You said one.", "You said one, then two.", "You said uno.", "You said uno."]),
    ],
)
async def test_the_client_of_an_example_reads_what_it_says(program, client, said):
    names = {"__name__": "example"}
    exec(compile((ROOT / "examples" / program).read_text(encoding="utf-8"), program, "exec"), names)
    async with served(names["app"]) as url, asyncio.timeout(20):
        assert await asyncio.to_thread(names[client], url) == said


async def output_of(*command, **environment):
    """What a command prints, which succeeds."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}: install it with the system's package manager")
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=os.environ | environment)
    out, err = await started.communicate()
    assert started.returncode == 0, err.decode()
    return out.decode()


@pytest.mark.process
async def test_the_commands_of_coming_back_have_the_statuses_that_are_written_above_them(tmp_path):
    (tmp_path / ".curlrc").write_text('silent\nwrite-out = "\\nstatus %{http_code}\\n"\n')
    names = {"__name__": "a page"}
    exec(blocks("coming-back.md", "python")[0].replace("sleep(0.5)", "sleep(0)"), names)
    commands = blocks("coming-back.md", "sh")[0]
    async with served(names["app"]) as url, asyncio.timeout(20):
        script = commands.replace("localhost:8000", url.removeprefix("http://"))
        printed = await output_of("bash", "-c", script, CURL_HOME=str(tmp_path))
    expected = re.findall(r"^#.* (\d{3})$", commands, re.M)
    assert re.findall(r"^status (\d{3})$", printed, re.M) == ["200", *expected]
    assert printed.count("RUN_FINISHED") == 1 + expected.count("200")


@pytest.mark.process
async def test_the_browser_of_coming_back_asks_for_what_is_there():
    (code,) = blocks("coming-back.md", "js")
    stand_in = "globalThis.EventSource = class { constructor(url) { console.log(url) } };"
    path = (await output_of("node", "-e", f"{stand_in}{code}follow('a run/1')")).strip()
    names = {"__name__": "a page"}
    exec(blocks("coming-back.md", "python")[0].replace("sleep(0.5)", "sleep(0)"), names)
    question = {"id": "m", "role": "user", "content": "go"}
    body = {"threadId": "t", "runId": "a run/1", "protocolVersion": "1.0", "messages": [question]}
    async with served(names["app"]) as url, aiohttp.ClientSession() as http, asyncio.timeout(20):
        async with http.post(f"{url}/agui", json=body) as response:
            await response.read()
        async with http.get(yarl.URL(url + path, encoded=True)) as response:
            heard = [event["type"] for event in oracles.events(await response.read())]
    assert heard[:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"] and heard[-1] == "RUN_FINISHED"


def test_the_example_of_two_users_knows_who_asks():
    names = {"__name__": "example"}
    exec(compile((ROOT / "examples" / "two_users.py").read_text(encoding="utf-8"), "two_users.py", "exec"), names)
    assert callable(names["app"])


def test_every_field_of_the_configuration_is_documented():
    page = "".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("configuration", "identity"))
    for section in (
        config.Config,
        config.Agent,
        config.Anonymous,
        config.Auth,
        config.Callers,
        config.ContextHeader,
        config.Jwt,
        config.Mcp,
        config.McpServer,
        config.McpTimeouts,
        config.Model,
        config.OAuth2,
        config.Server,
        config.SessionCookie,
        config.Supervisor,
        config.Timeouts,
    ):
        for field in section.__struct_fields__:
            assert re.search(rf"\b{field}:", page), f"{section.__name__}.{field}"


def test_every_event_is_documented_in_its_order():
    page = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)`(?: \*)? \| `(\w+)` \| \w.*\|$", page, re.M)
    assert listed == [(kind.__name__, kind.__struct_config__.tag) for kind in events.EVENT_TYPES]


async def test_a_lane_of_a_generator_belongs_to_the_call_that_it_names():
    (code,) = [block for block in blocks("agents.md", "python") if "call_id=" in block and ".lane(" in block]
    names = {"__name__": "a page"}
    exec(code, names)
    question = {"id": "m", "role": "user", "content": "go"}
    async with served(names["app"]) as url, aiohttp.ClientSession() as http, asyncio.timeout(20):
        body = {"threadId": "t", "runId": "r", "protocolVersion": "1.0", "messages": [question]}
        async with http.post(f"{url}/agui", json=body) as response:
            heard = list(oracles.events(await response.read()))
    (call,) = [event for event in heard if event["type"] == "TOOL_CALL_START"]
    (lane,) = [event for event in heard if event["type"] == "SUBAGENT_STARTED"]
    assert lane["parentToolCallId"] == call["toolCallId"]


def test_every_error_code_is_documented():
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    source = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py") if "demo" not in path.parts
    )
    codes = set(re.findall(r"""\bcode(?:: str)? ?= ?"([a-z_]+)\"""", source))
    assert {code for code in codes if f"`{code}`" not in page} == set()
