"""What the documentation shows works: code runs, configuration is accepted, commands exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.config import parse

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


@pytest.mark.parametrize(("language", "code"), BLOCKS)
def test_every_block_of_the_documentation_is_true(language, code):
    if language == "python":
        exec(compile(code, "a page", "exec"), {"__name__": "a page"})
    elif language == "yaml":
        # A page may show one section; it needs an agent to be a configuration.
        parse(code if "agents:" in code else code + "\nagents: {a: {python: 'm:a'}}\n")
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

    served = {route.path for route in anabranch.App({"a": nobody})._asgi.routes}
    shown = re.findall(r"`(?:GET|POST|HEAD)?`?,? ?`?(/[a-z{}/_]*)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert {path.replace("{id}", "{run_id:path}") for path in shown} <= served | {"/"}


def test_the_supervisor_example_is_a_configuration():
    parse((ROOT / "examples" / "supervisor.yaml").read_text(encoding="utf-8"))


@pytest.mark.process
@pytest.mark.parametrize("program", ["tool_lane.py"])
def test_an_example_runs(program):
    ran = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / program], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert "AgentStarted" in ran.stdout and "RunFinished(outcome='success'" in ran.stdout


@pytest.mark.parametrize("program", ["echo.py", "two_users.py"])
def test_an_example_that_serves_is_an_app(program):
    names = {"__name__": "example"}
    exec(compile((ROOT / "examples" / program).read_text(encoding="utf-8"), program, "exec"), names)
    assert callable(names["app"])
