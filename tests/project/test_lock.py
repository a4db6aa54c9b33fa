"""The lock file pins everything that the project needs, on every Python that it claims, and nothing else."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from fairshares.harness.cli.bootstrap import LOCK, TEST_LOCK
from fairshares.harness.errors import EXTRAS
from tests.locks.__main__ import BUILD_LOCK, DOCS_LOCK, PLATFORMS, read_pins, write

LINE = re.compile(
    r"[a-z0-9][a-z0-9.-]*==[0-9][0-9a-z.!+]*(; [^;#]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n"
)
APART = {"all", "cluster", "flower", "stores"}  # extras that are not locked


def lock_text(directory: Path) -> str:
    return (directory / LOCK).read_text()


def locked(directory: Path) -> dict[str, Requirement]:
    """Return the pinned requirements of a directory's lock file, by canonical name."""
    return {pin.name: pin.requirement for pin in read_pins(lock_text(directory))}


def settings_of(project: Path) -> dict[str, Any]:
    return tomllib.loads((project / "pyproject.toml").read_text())


def direct(project: Path, *, tests: bool = True) -> list[Requirement]:
    """Return what pyproject.toml asks for, locked extras too. Args: tests: whether these are, too."""
    settings = settings_of(project)
    extras = settings["project"]["optional-dependencies"]
    needed = settings["project"]["dependencies"] + settings["dependency-groups"]["test"] * tests
    of_extras = [
        requirement for name, all_of_it in extras.items() if name not in APART for requirement in all_of_it
    ]
    return [*map(Requirement, needed + of_extras)]


def needs(requirements: list[Requirement], platform: dict[str, str]) -> Iterator[Requirement]:
    """Yield the requirements that apply on a platform, and theirs in turn."""
    seen = set()
    while requirements:
        requirement = requirements.pop()
        marker = requirement.marker
        if str(requirement) in seen or (marker and not marker.evaluate({**platform, "extra": ""})):
            continue
        seen.add(str(requirement))
        yield requirement
        requirements += map(Requirement, distribution(requirement.name).requires or [])


@pytest.mark.parametrize("name", [LOCK, TEST_LOCK, DOCS_LOCK, BUILD_LOCK])
def test_entries_pin_a_version_and_its_files_and_do_nothing_else(name: str, project: Path) -> None:
    text = (project / name).read_text()
    pins = read_pins(text)
    assert pins and "".join(entry.group() for entry in LINE.finditer(text)) == text == write(pins)
    assert len({pin.name for pin in pins}) == len(pins)
    assert all(list(pin.hashes) == sorted({*pin.hashes}) for pin in pins)


def test_an_entry_without_hashes_is_noticed(project: Path) -> None:
    text = lock_text(project)
    (first, *_) = read_pins(text)
    without = text.replace(str(first), str(first.requirement), 1)
    assert "".join(entry.group() for entry in LINE.finditer(without)) != without


def test_the_packages_that_build_the_wheel_are_pinned_and_so_are_theirs(project: Path) -> None:
    """pip installs what `requires` names, by name: each is exact, and nothing is left to be resolved."""
    named = map(Requirement, settings_of(project)["build-system"]["requires"])
    pins = read_pins((project / BUILD_LOCK).read_text())
    assert sorted(map(str, named)) == sorted(str(pin.requirement) for pin in pins)
    assert next(pin.name for pin in pins) == "hatchling"


def test_packages_of_the_site_are_pinned(project: Path) -> None:
    """Their own are complete if `./inv docs` runs: nothing that is not pinned is installed."""
    pins = locked(project / "docs")
    for requirement in map(Requirement, settings_of(project)["dependency-groups"]["docs"]):
        (exact,) = pins[canonicalize_name(requirement.name)].specifier
        assert requirement.specifier.contains(exact.version)


@pytest.mark.parametrize("tests", [False, True])
def test_pins_meet_every_requirement_and_nothing_is_pinned_in_vain(tests: bool, project: Path) -> None:
    pins, needed = locked(project) | (locked(project / "tests") if tests else {}), set()
    assert f"tests/{LOCK}" == TEST_LOCK and not locked(project).keys() & locked(project / "tests").keys()
    for platform in PLATFORMS:
        for requirement in needs(direct(project, tests=tests), platform):
            pin = pins[canonicalize_name(requirement.name)]
            (exact,) = pin.specifier
            assert requirement.specifier.contains(exact.version, prereleases=True), (pin, requirement)
            assert pin.marker is None or pin.marker.evaluate(platform), (pin, platform)
            needed.add(canonicalize_name(requirement.name))
    assert set(pins) == needed


def test_pinned_versions_run_on_every_python(project: Path) -> None:
    pins = locked(project) | locked(project / "tests")
    about = {name: distribution(name).metadata for name in pins}
    claims = {name: said["Requires-Python"] for name, said in about.items() if "Requires-Python" in said}
    pythons = [platform["python_full_version"] for platform in PLATFORMS]
    refusing = [name for name, claim in claims.items() if len([*SpecifierSet(claim).filter(pythons)]) < 6]
    assert len(claims) > 30 and refusing == []


def test_what_is_installed_is_what_is_pinned(project: Path) -> None:
    pins = locked(project) | locked(project / "tests")
    assert {name: f"=={distribution(name).version}" for name in pins} == {
        name: str(pin.specifier) for name, pin in pins.items()
    }


def test_each_extra_is_all_of_it_and_is_named_where_its_package_is_missing(project: Path) -> None:
    extras = settings_of(project)["project"]["optional-dependencies"]
    assert set(extras) - APART == {*EXTRAS.values()} - APART
    assert extras["all"] == [f"fairshares[{','.join(sorted({*EXTRAS.values()}))}]"]
    for package, extra in EXTRAS.items():
        (first,) = extras[extra]
        assert package in {
            name.replace("-", "_")
            for name in map(str, map(name_of, needs([Requirement(first)], PLATFORMS[0])))
        }


def name_of(requirement: Requirement) -> str:
    return canonicalize_name(requirement.name)
