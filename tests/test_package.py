"""The package is installed from whatever people install from, and nothing goes through the links at the top level."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from okralong.jobs.submission import Submission
from okralong.jobs.submit import write_package
from okralong.pipelines.core.config import parse_config
from tests.conftest import CHECKOUT
from tests.test_house import LINKS, sources

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))

INSTALL = ("install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed")

LOOK = """
import json, pathlib, sys
from importlib import metadata, resources
import okralong
from okralong.pipelines.core.config import shipped_config

package = pathlib.Path(okralong.__file__).parent
files = [str(file.relative_to(package)) for file in package.rglob("*") if file.is_file()]
print(json.dumps({
    "package": str(package),
    "versions": [okralong.__version__, metadata.version("okralong")],
    "config": len(shipped_config("answer.yaml")),
    "page": [each.name for each in resources.files("okralong.pipelines.reporting").joinpath("page").iterdir()],
    "files": [file for file in files if "__pycache__" not in file],
}))
"""


def tracked() -> list[str]:
    """The files of the checkout that are committed or about to be, links included."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    return sorted({name for name in names.split("\0") if name and os.path.lexists(CHECKOUT / name)})


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout without what git does not know, so that a build writes nothing into the checkout."""
    copy = tmp_path_factory.mktemp("tree") / "okralong-main"
    for name in tracked():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(CHECKOUT / name, copy / name, follow_symlinks=False)
    return copy


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A bare virtual environment that finds the dependencies in the environment of the tests."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    site = next(venv.glob("lib/python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return venv


def pip(environment: Path, *words: str | Path) -> None:
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    command = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python", *INSTALL, *words]
    done = subprocess.run(command, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def check(environment: Path, folder: Path, package: Path | None = None) -> None:
    """Import and run the installed copy from another folder: it has every file of the package, and no other."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*command: str | Path) -> str:
        done = subprocess.run(command, cwd=elsewhere, env=alone, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    found = json.loads(run(environment / "bin" / "python", "-c", LOOK))
    if package is None:
        assert Path(found["package"]).is_relative_to(environment)
    else:
        assert Path(found["package"]) == package
    assert found["versions"] == [PROJECT["project"]["version"]] * 2
    assert found["config"] > 0
    assert {"page.html", "page.css"} <= set(found["page"])
    files = {name.removeprefix("okralong/") for name in tracked() if name.startswith("okralong/")}
    assert set(found["files"]) == files
    assert any(name.startswith("pipelines/models/adapters/reader/") for name in files)
    assert any(name.startswith("configs/policy/") for name in files)
    assert "Usage: okralong" in run(environment / "bin" / "okralong", "--help")


def built(tree: Path, folder: Path, what: str) -> Path:
    """Build an sdist or a wheel of the tree, as pip and other frontends have it built."""
    code = f"import setuptools.build_meta as backend; print(backend.build_{what}({str(folder)!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.splitlines()[-1]


def assert_no_link_and_no_file_twice(names: list[str]) -> None:
    assert len(names) == len(set(names))
    assert not {name.split("/")[0] for name in names} & set(LINKS)


@pytest.mark.slow  # builds a wheel
def test_pip_installs_a_zip_whose_links_are_text(tree: Path, environment: Path, tmp_path: Path) -> None:
    """As hosting sites make them: pip unpacks a link as a file that holds the path."""
    archive = tmp_path / "main.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for name in tracked():
            path = tree / name
            out.writestr(f"okralong-main/{name}", os.readlink(path) if path.is_symlink() else path.read_bytes())
    pip(environment, archive)
    check(environment, tmp_path)


@pytest.mark.slow  # builds a wheel
def test_pip_installs_an_sdist(tree: Path, environment: Path, tmp_path: Path) -> None:
    sdist = built(tree, tmp_path, "sdist")
    with tarfile.open(sdist) as held:
        assert all(each.isfile() or each.isdir() for each in held)
        assert_no_link_and_no_file_twice([each.name.partition("/")[2] for each in held if each.isfile()])
    pip(environment, sdist)
    check(environment, tmp_path)


@pytest.mark.slow  # builds a wheel
def test_pip_installs_a_wheel(tree: Path, environment: Path, tmp_path: Path) -> None:
    wheel = built(tree, tmp_path, "wheel")
    with zipfile.ZipFile(wheel) as held:
        names = held.namelist()
    assert_no_link_and_no_file_twice(names)
    assert {name.split("/")[0] for name in names} == {"okralong", f"okralong-{PROJECT['project']['version']}.dist-info"}
    pip(environment, wheel)
    check(environment, tmp_path)


@pytest.mark.slow  # builds a wheel
def test_pip_installs_an_editable_checkout(tree: Path, environment: Path, tmp_path: Path) -> None:
    pip(environment, "--editable", tree)
    check(environment, tmp_path, tree / "okralong")


@pytest.mark.slow  # builds a wheel
def test_pip_installs_from_a_git_url(tree: Path, environment: Path, tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost"]
    repository = tmp_path / "repository"
    shutil.copytree(tree, repository, symlinks=True)
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "All."]):
        subprocess.run([*git, *words], cwd=repository, check=True)
    pip(environment, f"git+file://{repository}")
    check(environment, tmp_path)


def test_what_builds_the_package_is_pinned() -> None:
    (setuptools,) = PROJECT["build-system"]["requires"]
    assert setuptools in (CHECKOUT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    assert setuptools.partition("==")[0] in PROJECT["project"]["optional-dependencies"]["dev"]


def test_the_links_are_links_into_the_package() -> None:
    assert {name: os.readlink(CHECKOUT / name) for name in LINKS} == {name: f"okralong/{name}" for name in LINKS}


def test_nothing_imports_through_the_links() -> None:
    through = re.compile(rf"^\s*(from|import) ({'|'.join(LINKS)})\b", re.MULTILINE)
    assert [name for name, code in sources() if through.search(code)] == []


def test_nothing_is_linted_checked_or_collected_through_the_links() -> None:
    ruff = [Path(sysconfig.get_path("scripts")) / "ruff", "check", "--show-files", "."]
    shown = subprocess.run(ruff, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.splitlines()
    linted = [str(Path(each).relative_to(CHECKOUT)) for each in shown]
    assert "okralong/jobs/cli.py" in linted
    assert_no_link_and_no_file_twice(linted)
    excluded = PROJECT["tool"]["mypy"]["exclude"]
    assert all(any(re.search(each, f"{name}/cli.py") for each in excluded) for name in LINKS)
    assert not any(re.search(each, "okralong/jobs/cli.py") for each in excluded)
    assert PROJECT["tool"]["pytest"]["ini_options"]["testpaths"] == ["tests"]
    assert PROJECT["tool"]["setuptools"]["packages"]["find"]["include"] == ["okralong", "okralong.*"]


def test_a_submitted_job_s_folder_has_each_file_once_and_no_link(tmp_path: Path) -> None:
    job = {"kind": "index", "archive": "s3://b/archive", "sources": ["s3://b/reports"]}
    submission = parse_config(Submission, yaml.safe_dump({"job": job}), "submit.yaml")
    write_package(submission, tmp_path, tmp_path / "package", {})
    sent = list((tmp_path / "package").rglob("*"))
    assert not any(each.is_symlink() for each in sent)
    names = [str(each.relative_to(tmp_path / "package")) for each in sent if each.is_file()]
    assert "okralong/jobs/cli.py" in names
    assert {name.split("/")[0] for name in names} == {"okralong"}


def test_twine_accepts_what_is_uploaded(tree: Path, tmp_path: Path) -> None:
    files = [built(tree, tmp_path, "sdist"), built(tree, tmp_path, "wheel")]
    done = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") == len(files)


def test_the_conda_recipe_has_the_package_s_dependencies() -> None:
    recipe = yaml.safe_load((CHECKOUT / "deploy/conda/recipe.yaml").read_text(encoding="utf-8"))
    others = {"torch": ["pytorch"], "ray": ["ray-data", "ray-default", "ray-serve"]}
    wanted = {"python >=3.11", "faiss-cpu"}
    for line in PROJECT["project"]["dependencies"]:
        name = re.match(r"[\w.-]+", line)[0]  # type: ignore[index]
        version = line.removeprefix(name) if "[" not in line else ""
        wanted |= {f"{each.lower()} {version}".strip() for each in others.get(name, [name])}
    assert set(recipe["requirements"]["run"]) == wanted
    assert recipe["context"]["version"] == PROJECT["project"]["version"]


def test_a_release_has_no_token_and_only_the_rights_it_needs() -> None:
    release = yaml.safe_load((CHECKOUT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    assert release["permissions"] == {}
    assert release["jobs"]["build"]["permissions"] == {"contents": "read"}
    assert release["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in (CHECKOUT / ".github/workflows/release.yml").read_text(encoding="utf-8")
