"""The files that make a cluster: valid by the schemas of those who read them, of the lock's versions, without keys."""

from __future__ import annotations

import copy
import re
import shlex
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from okralong.jobs.secret_search import refuse_secrets
from okralong.jobs.submission import Submission
from okralong.pipelines.core.config import load_config, unplaceable_parts
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.nightly import NightlyConfig
from tests.conftest import CHECKOUT

KUBERNETES = "1.34"
GROUP = "okralong.io/group"
PRODUCT = ("okralong",)
FILES = ("cluster.yaml", "deploy/rayjob.yaml", "deploy/nightly.yaml", "deploy/Dockerfile", "deploy/crontab")


def read(name: str) -> Any:
    return yaml.safe_load((CHECKOUT / name).read_text(encoding="utf-8"))


def locked(package: str) -> str:
    found = re.search(rf"^{package}==(\S+)$", (CHECKOUT / "requirements.lock").read_text(), re.MULTILINE)
    assert found
    return found[1]


def kuberay_schema() -> Any:
    return yaml.safe_load((Path(__file__).parent / "kuberay_schema.yaml").read_text(encoding="utf-8"))


def groups(job: Any) -> Iterator[Any]:
    cluster = job["rayClusterSpec"]
    yield cluster["headGroupSpec"]
    yield from cluster["workerGroupSpecs"]


def test_the_launcher_takes_cluster_yaml() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(copy.deepcopy(read("cluster.yaml"))))
    broken = read("cluster.yaml")
    broken["available_node_types"]["gpu"]["label"] = {}
    with pytest.raises(jsonschema.ValidationError, match="label"):
        validate_config(prepare_config(broken))


@pytest.mark.parametrize("name", ["deploy/rayjob.yaml", "deploy/nightly.yaml"])
def test_kuberay_knows_every_field(name: str) -> None:
    manifest = read(name)
    jsonschema.validate(manifest, kuberay_schema())
    job = manifest["spec"].get("jobTemplate", manifest["spec"])
    for group in groups(job):
        template = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": group["template"]}
        kubernetes_validate.validate(template, KUBERNETES, strict=True)


def test_the_schemas_refuse_what_is_wrong() -> None:
    wrong = read("deploy/rayjob.yaml")
    wrong["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replica"] = 1
    with pytest.raises(jsonschema.ValidationError, match="replica"):
        jsonschema.validate(wrong, kuberay_schema())
    pod = next(groups(read("deploy/rayjob.yaml")["spec"]))["template"]
    pod["spec"]["containers"][0]["envFromm"] = []
    template = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": pod}
    with pytest.raises(kubernetes_validate.ValidationError, match="envFromm"):
        kubernetes_validate.validate(template, KUBERNETES, strict=True)


def test_the_nightly_job_is_the_job() -> None:
    nightly = read("deploy/nightly.yaml")["spec"]
    assert nightly["jobTemplate"] == read("deploy/rayjob.yaml")["spec"]
    assert nightly["schedule"] == "0 1 * * *"


def test_versions_are_the_locks() -> None:
    ours = re.search(r'^version = "(.+)"$', (CHECKOUT / "pyproject.toml").read_text(), re.MULTILINE)
    assert ours
    assert read("deploy/rayjob.yaml")["spec"]["rayClusterSpec"]["rayVersion"] == locked("ray")
    texts = {name: (CHECKOUT / name).read_text() for name in FILES}
    tags = {tag for text in texts.values() for tag in re.findall(r"REGISTRY/okralong:(\S+?)[}\s]", text)}
    wanted = f"{ours[1]}-ray{locked('ray')}-py311"
    assert tags == {wanted, f"{wanted}-gpu"}
    assert re.findall(r"^FROM (\S+)$", texts["deploy/Dockerfile"], re.MULTILINE) == [
        f"rayproject/ray:{locked('ray')}-py311${{FLAVOUR}}"
    ]


def test_the_groups_are_those_that_the_cluster_configs_place_parts_on() -> None:
    launcher = {name: kind["labels"][GROUP] for name, kind in read("cluster.yaml")["available_node_types"].items()}
    assert launcher == {name: name for name in ("head", "cpu", "gpu", "spot")}
    kuberay = {
        group.get("groupName", "head"): group["labels"][GROUP] for group in groups(read("deploy/rayjob.yaml")["spec"])
    }
    assert kuberay == launcher
    nodes: list[Any] = [({GROUP: group}, {}) for group in launcher]
    index, answer = load_config(IndexConfig, "cluster/index.yaml"), load_config(RunConfig, "cluster/answer.yaml")
    assert unplaceable_parts(index.placement, nodes) == ()
    assert unplaceable_parts(answer.placement, nodes) == ()
    fits = {
        part: {n[0][GROUP] for n in nodes if getattr(answer.placement, part).takes(*n)}
        for part in ("planners", "analyzer", "embedder", "ledger")
    }
    assert fits == {"planners": {"cpu"}, "analyzer": {"gpu"}, "embedder": {"gpu"}, "ledger": {"head", "cpu", "gpu"}}
    assert index.placement.embedders.labels == {GROUP: "gpu"}


def test_spot_nodes_are_spot_and_gpu_nodes_have_gpus() -> None:
    kinds = read("cluster.yaml")["available_node_types"]
    assert kinds["spot"]["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert kinds["gpu"]["resources"]["GPU"] == 1
    workers = {
        group["groupName"]: group["template"]["spec"]
        for group in groups(read("deploy/rayjob.yaml")["spec"])
        if "groupName" in group
    }
    assert "nodeSelector" in workers["spot"]
    assert workers["gpu"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1


def test_keys_come_from_the_nodes_and_stand_in_no_file() -> None:
    for name in FILES:
        refuse_secrets({name: (CHECKOUT / name).read_text()}, {})
    job = read("deploy/rayjob.yaml")["spec"]
    assert "runtimeEnvYAML" not in job
    for group in groups(job):
        for container in group["template"]["spec"]["containers"]:
            assert container["envFrom"] == [{"secretRef": {"name": "okralong-keys"}}]
            assert {variable["name"] for variable in container["env"]} == {"AWS_REGION"}
    assert any(option.startswith("--env-file") for option in read("cluster.yaml")["docker"]["run_options"])


def test_every_ray_asks_for_its_token() -> None:
    for name in ("deploy/rayjob.yaml", "deploy/nightly.yaml"):
        spec = read(name)["spec"]
        cluster = spec.get("jobTemplate", spec)["rayClusterSpec"]
        assert cluster["authOptions"] == {"mode": "token"}  # its secret is the operator's
    launcher = read("cluster.yaml")
    options = dict(each.split(" ", 1) for each in launcher["docker"]["run_options"] if not each.startswith("--env "))
    variables = dict(each[6:].split("=") for each in launcher["docker"]["run_options"] if each.startswith("--env "))
    assert variables == {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "/run/okralong/ray_token"}
    source, mounted, how = options["--volume"].split(":")
    assert (mounted, how) == (variables["RAY_AUTH_TOKEN_PATH"], "ro")
    for file in (source, options["--env-file"]):
        (written,) = (each for each in launcher["initialization_commands"] if each.endswith(f"> {file}"))
        assert written.startswith("umask 077 && aws secretsmanager get-secret-value ")
    assert "RAY_AUTH_MODE=token, RAY_AUTH_TOKEN_PATH" in (CHECKOUT / "deploy/crontab").read_text()


@pytest.mark.parametrize("name", ["deploy/rayjob.yaml", "deploy/nightly.yaml"])
def test_no_pod_may_do_more_than_it_needs(name: str) -> None:
    """Kubernetes' restricted pod security standard, and a root file system that nothing can be written to."""
    spec = read(name)["spec"]
    cluster = spec.get("jobTemplate", spec)["rayClusterSpec"]
    users = {"runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 100, "seccompProfile": {"type": "RuntimeDefault"}}
    confined = users | {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    written = {"/tmp", "/home/ray/.cache"}
    containers = [cluster["autoscalerOptions"]]  # one that the operator adds to the head
    for group in groups(spec.get("jobTemplate", spec)):
        pod = group["template"]["spec"]
        assert pod["securityContext"] == users | {"fsGroup": 100}
        assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(pod)
        assert pod["volumes"] == [{"name": each, "emptyDir": {}} for each in ("tmp", "cache")]
        containers += pod["containers"]
    assert len(containers) == 5
    for container in containers:
        assert container["securityContext"] == confined
        assert {mount["mountPath"] for mount in container["volumeMounts"]} == written


def test_the_image_runs_as_the_user_of_the_pods() -> None:
    lines = (CHECKOUT / "deploy/Dockerfile").read_text().splitlines()
    user = next(group for group in groups(read("deploy/rayjob.yaml")["spec"]))["template"]["spec"]["securityContext"]
    assert [line for line in lines if line.startswith("USER")] == [f"USER {user['runAsUser']}:{user['runAsGroup']}"]
    assert lines[-1].startswith("USER"), "nothing runs as another user after it"
    assert "ENV PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME=/home/ray/.cache" in lines


def sent_to_the_builder(path: str) -> bool:
    """Whether .dockerignore lets a file in: the last pattern that matches it, or a folder above it, decides."""
    sent = True
    above = [path, *(str(parent) for parent in PurePosixPath(path).parents)]
    for line in (CHECKOUT / ".dockerignore").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = re.escape(line.removeprefix("!")).replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*")
        if any(re.fullmatch(pattern, each) for each in above):
            sent = line.startswith("!")
    return sent


def test_the_builder_gets_the_package_and_no_key() -> None:
    product = [str(file.relative_to(CHECKOUT)) for folder in PRODUCT for file in (CHECKOUT / folder).rglob("*.*")]
    product = [name for name in product if "__pycache__" not in name]
    assert len(product) > 200
    needed = ["pyproject.toml", "requirements.lock", "README.md", "LICENSE", "okralong/__main__.py", "okralong/jobs"]
    assert [name for name in (*product, *needed) if not sent_to_the_builder(name)] == []
    kept = [".git/config", ".env", "keys.env", "server.pem", "id_rsa", ".venv/bin/python", "demo/run/run.json"]
    kept += [
        "okralong/configs/.env",
        "okralong/configs/keys.env",
        "okralong/jobs/server.key",
        "okralong/pipelines/__pycache__/x.pyc",
        "build/lib/x.py",
    ]
    kept += ["tests/conftest.py", "docs/index.md", "shared/README.md", "runs/a/ledger/1.parquet", ".cache/okralong/x"]
    assert [name for name in kept if sent_to_the_builder(name)] == []


def test_the_cron_line_is_one() -> None:
    lines = [line for line in (CHECKOUT / "deploy/crontab").read_text().splitlines() if not line.startswith("#")]
    assert len(lines) == 1
    assert re.match(r"^[\d*/,-]+( [\d*/,-]+){4}\s+cd ", lines[0])
    assert shlex.split(lines[0])[-4:-2] == ["submit", "nightly.yaml"]


def test_what_runs_every_night_is_the_one_command() -> None:
    submission = load_config(Submission, "submit/nightly.yaml")
    job = read("deploy/rayjob.yaml")["spec"]["entrypoint"]
    assert submission.entrypoint.split()[-2:] == job.split()[-2:] == ["nightly", "s3://BUCKET/nightly.yaml"]
    config = load_config(NightlyConfig, "cluster/nightly.yaml")
    assert (config.index, config.answer, config.exit_on_change) == ("cluster/index.yaml", "cluster/answer.yaml", False)
