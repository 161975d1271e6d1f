"""Check that a version can be released, and publish nothing: `make release`.

`python .ci/release.py [--final] DIST` checks the built files in a folder. With `--final`, as the
release workflow does, what only a release must have counts too: real addresses and a dated entry in
the changelog. `--sbom FILE` writes the packages of this interpreter, in CycloneDX's format.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions, version
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
_PLACEHOLDER = re.compile(r"https?://[\w.-]*\.example\b")
_VERSIONS = re.compile(r"Programming Language :: Python :: (3\.\d+)$")
_ENTRY = re.compile(r"^## (\S+) \((.+)\)$", re.MULTILINE)
_UNPUBLISHED = "not published yet"
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MUST_HAVE = ("handrail/py.typed", "handrail/_version.py")
_MUST_NOT_HAVE = re.compile(r"(^|/)(tests|bench|\.git|__pycache__|\.env)(/|$)|\.pyc$")


def check_tree(root: Path) -> Iterator[str]:
    """Yield what is wrong with the sources, for any version."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = version("handrail")
    found = _ENTRY.findall((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    if not found or found[0][0] != own:
        yield f"CHANGELOG.md: the first entry is not that of {own}"
    declared = {one for line in project["classifiers"] for one in _VERSIONS.findall(line)}
    for name in (".github/workflows/check.yml", ".ci/pythons"):
        tested = set(re.findall(r"\b3\.1[1-9]\b", (root / name).read_text(encoding="utf-8")))
        if tested != declared:
            yield f"{name}: tests {sorted(tested)}, and the classifiers name {sorted(declared)}"
    hosts = {address.split("/")[2] for address in project["urls"].values()}
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"), root / "mkdocs.yml"]
    for page in pages:
        for host in hosts:
            if host in page.read_text(encoding="utf-8"):
                yield f"{page.relative_to(root)}: names {host}; only pyproject.toml has addresses"


def check_final(root: Path, tag: str = "") -> Iterator[str]:
    """Yield what a release must have, and a change need not."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for label, address in project["urls"].items():
        if _PLACEHOLDER.match(address):
            yield f"pyproject.toml: the address of {label} is a placeholder, {address}"
    own, date = _ENTRY.findall((root / "CHANGELOG.md").read_text(encoding="utf-8"))[0]
    if not _DATE.fullmatch(date):
        yield f"CHANGELOG.md: {own} has no date, but ({date})"
    if tag and tag != f"v{own}":
        yield f"the tag is {tag}, and the version {own}"
    for page in (root / "README.md", *sorted(root.glob("docs/**/*.md"))):
        if "decisions" not in page.parts and _UNPUBLISHED in page.read_text(encoding="utf-8"):
            yield f"{page.relative_to(root)}: says {_UNPUBLISHED!r}"


def check_files(folder: Path, own: str) -> Iterator[str]:
    """Yield what is wrong with a built wheel and a source distribution."""
    wheel = folder / f"handrail-{own}-py3-none-any.whl"
    sdist = folder / f"handrail-{own}.tar.gz"
    for file in (wheel, sdist):
        if not file.exists():
            yield f"{file.name} was not built"
            return
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(f"handrail-{own}.dist-info/METADATA").decode()
    yield from (f"{wheel.name}: {name} is missing" for name in _MUST_HAVE if name not in names)
    if not any(name.endswith("licenses/LICENSE") for name in names):
        yield f"{wheel.name}: the license is missing"
    yield from (f"{wheel.name}: has {name}" for name in names if _MUST_NOT_HAVE.search(name))
    if " @ " in "".join(re.findall(r"^Requires-Dist: .*$", metadata, re.MULTILINE)):
        yield f"{wheel.name}: a dependency is an address"
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "tests/conftest.py"):
        if name not in inside:
            yield f"{sdist.name}: {name} is missing"


def make_sbom(installed: list[Distribution], number: str) -> dict[str, object]:
    """Return the packages of an environment as a CycloneDX document."""
    packages = sorted({(one.name.lower().replace("_", "-"), one.version) for one in installed})
    parts = [
        {
            "type": "library",
            "name": name,
            "version": each,
            "bom-ref": (reference := f"pkg:pypi/{name}@{each}"),
            "purl": reference,
        }
        for name, each in packages
        if name != "handrail"
    ]
    own = {"type": "library", "name": "handrail", "version": number}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own | {"purl": f"pkg:pypi/handrail@{number}"}},
        "components": parts,
    }


def main() -> None:
    """Print what is wrong, and fail if anything is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path, nargs="?")
    parser.add_argument("--final", action="store_true")
    parser.add_argument("--tag", default="")
    parser.add_argument("--sbom", type=Path)
    options = parser.parse_args()
    own = version("handrail")
    if options.sbom:
        document = json.dumps(make_sbom(list(distributions()), own), indent=1)
        options.sbom.write_text(f"{document}\n", encoding="utf-8")
        return
    wrong = [*check_tree(ROOT)]
    if options.dist:
        wrong += check_files(options.dist, own)
    before_release = [*check_final(ROOT, options.tag)]
    if options.final:
        wrong += before_release
    else:
        sys.stdout.writelines(f"before the release: {line}\n" for line in before_release)
    sys.stdout.writelines(f"wrong: {line}\n" for line in wrong)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
