"""The matrix: what make test and make check do, on every supported Python, at the oldest versions, and as a wheel."""

from pathlib import Path

import nox

nox.needs_version = ">=2026.10"
nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lint", "types", "tests", "minimum", "package"]

PYTHONS = ["3.11", "3.12", "3.13"]


def install_locked(session: nox.Session) -> None:
    """Install the locked development environment and link the package into it."""
    session.install("--require-hashes", "-r", "requirements/dev.txt")
    session.install("--no-build-isolation", "--no-deps", "--editable", ".")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Every test, at the locked versions. The oracle tests need `make setup` to have fetched their packages."""
    install_locked(session)
    session.run("pytest", *session.posargs)


@nox.session(python=PYTHONS[0])
def lint(session: nox.Session) -> None:
    """Format, lint and the direction law."""
    install_locked(session)
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("lint-imports", "--no-cache")


@nox.session(python=PYTHONS)
def types(session: nox.Session) -> None:
    """The strict type check: each Python sees its own standard library."""
    install_locked(session)
    session.run("mypy", *session.posargs)


@nox.session(python=PYTHONS[0])
def minimum(session: nox.Session) -> None:
    """The tests at the lowest versions that pyproject.toml claims to accept."""
    session.install("--resolution", "lowest-direct", "--editable", ".[demo]", "--group", "dev")
    session.run("pytest", *session.posargs)


@nox.session(python=PYTHONS)
def package(session: nox.Session) -> None:
    """The wheel, installed with no extra: it imports, and its command answers."""
    dist = Path(session.create_tmp())
    session.run("uv", "build", "--quiet", "--wheel", "--out-dir", str(dist), external=True)
    wheel = max(dist.glob("anabranch-*.whl"), key=lambda path: path.stat().st_mtime)
    session.install("--reinstall-package", "anabranch", str(wheel))
    session.chdir(dist)
    session.run("python", "-c", "import anabranch; print(anabranch.__version__)")
    session.run("anabranch", "--help", silent=True)
