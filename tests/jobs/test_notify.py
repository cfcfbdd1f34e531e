"""A nightly's messages, at servers of mail and webhooks that take, refuse or keep them waiting."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from okralong.jobs import notify
from okralong.jobs.nightly import NightStopped, run_nightly
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_CHANGED, EXIT_ENDPOINT, EXIT_FAILURES, EXIT_OK, OkraError, OverBudget
from okralong.pipelines.run.nightly import Night, nights
from okralong.pipelines.run.notify import FromEnvironment, Rule
from tests.fakes.notify_servers import mail_server, webhook, words_of
from tests.fakes.openai_server import FakeOpenAI, Messages
from tests.jobs.conftest import PAPER, call, endpoint

pytestmark = pytest.mark.slow

REPORT = "{name} annual report\n\nIncome (in thousands of U.S. dollars)\n\n| | 2023 |\n| Revenue | $ {revenue} |\n"
COLUMNS = """
columns:
  - {name: revenue, question: "What was the revenue of the year?", answer_type: money}
checks: ["revenue > 0"]
shipped_checks: false
"""
SECRET = "hunter2hunter2hunter2"


def typed(messages: Messages) -> str:
    """The revenue, where it is stated."""
    found = re.search(r"Revenue ?\| ?(\$ [\d,()]+)", messages[-1]["content"])
    evidence = [{"passage": 1, "quote": found[0]}] if found else []
    return json.dumps({"evidence": evidence, "value": found[1] if found else None, "period": "2023" if found else ""})


def write(folder: Path, **revenues: str) -> None:
    for name, revenue in revenues.items():
        (folder / "reports" / f"{name}.txt").write_text(REPORT.format(name=name, revenue=revenue), encoding="utf-8")


def nightly(folder: Path, *rules: dict[str, Any], **more: Any) -> Path:
    """Write the config with these rules."""
    config = yaml.safe_load((folder / "nightly.yaml").read_text()) | {"notify": list(rules)} | more
    (folder / "nightly.yaml").write_text(yaml.safe_dump(config))
    return folder / "nightly.yaml"


@pytest.fixture
def folder(tmp_path: Path, reader: FakeOpenAI, own_process: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two reports, a column and a check; a message may take six seconds."""
    (tmp_path / "reports").mkdir()
    write(tmp_path, alder="467,460", lantern="12,010")
    (tmp_path / "columns.yaml").write_text(COLUMNS, encoding="utf-8")
    answer: dict[str, Any] = {"policy": PAPER, "confidence": "none"}
    for dotted, value in endpoint(reader).items():
        below, _, key = dotted.partition(".")
        answer.setdefault(below, {})[key] = value
    config = {"folder": "nightly", "archive": "archive", "sources": ["reports"], "questions": "columns.yaml"}
    config |= {"index": {"embedding": {"of": "none"}, "shards": 1}, "answer": answer}
    (tmp_path / "nightly.yaml").write_text(yaml.safe_dump(config))
    reader.rules = [(lambda messages: True, typed)]
    monkeypatch.setattr(notify, "LONGEST_S", 6.0)
    return tmp_path


def last(folder: Path) -> Night:
    return nights(Folder.of(folder / "nightly"))[-1]


def everything_written(folder: Path) -> str:
    files = [each for each in (folder / "nightly").rglob("*") if each.is_file() and each.suffix in (".json", ".html")]
    return "".join(each.read_text(errors="replace") for each in files)


def test_a_night_tells_what_changed_and_no_webhook_can_stop_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with mail_server() as mail, webhook() as hook, webhook(500) as broken, webhook(hangs=True) as silent:
        monkeypatch.setenv("HOOK_URL", f"json://me:{SECRET}@127.0.0.1:{hook.port}/hooks/{SECRET}")
        monkeypatch.setenv("BROKEN_URL", f"json://127.0.0.1:{broken.port}/hooks/{SECRET}")
        monkeypatch.setenv("CHAT_URL", f"mmost://127.0.0.1:{hook.port}/{SECRET}")
        monkeypatch.setenv("ODD_URL", f"odd://{SECRET}")
        address = f"mailto://127.0.0.1:{mail.port}?from=okralong@desk.example&to=desk@desk.example"
        rules: list[dict[str, Any]] = [
            {"when": ["moved more than 5 %", "check failed"], "questions": "revenue", "to": [address]},
            {"when": "changed", "documents": "lantern", "to": [{"env": "HOOK_URL"}, {"env": "CHAT_URL"}]},
            {"when": "night failed", "to": [{"env": "HOOK_URL"}]},
        ]
        config = nightly(folder, *rules)
        assert run_nightly(config) == EXIT_CHANGED
        assert (mail.taken, hook.taken) == ([], []), "no rule is about new questions"

        write(folder, lantern="(12,900)", alder="467,461")
        broken_ones = [
            {"env": "BROKEN_URL"},
            {"env": "ODD_URL"},
            {"env": "UNSET_URL"},
            f"json://127.0.0.1:{silent.port}",
        ]
        nightly(folder, *rules, {"when": "changed", "to": broken_ones})
        begun = time.monotonic()
        assert run_nightly(config) == EXIT_FAILURES, "it is done, and four targets were not notified"
        assert time.monotonic() - begun < 180
        [message] = mail.taken
        text, marked = words_of(message)
        assert message["Subject"] == f"okralong, night {last(folder).name}: 1 cell"
        assert message["To"] == "desk@desk.example"
        for words in (text, marked):
            assert "revenue, lantern" in words
            assert "before: 12,010,000 USD" in words
            assert "cause: changed document (the text of lantern changed)" in words
            assert "after: -12,900,000 USD" in words
            assert "check failed: revenue &gt; 0" in words or "check failed: revenue > 0" in words
            assert "differences.html" in words
            assert "alder" not in words, "467,461 is no move of 5 %"
        assert f'href="file://{folder}/reports/lantern.txt"' in marked
        assert sorted(path.partition("/hunter")[0] for path, _ in hook.taken) == ["/hooks", "/hooks"]
        assert all("after: -12,900,000 USD" in body.get("message", body.get("text")) for _, body in hook.taken)
        notified = last(folder).notes["notified"]
        silent_url = f"json://127.0.0.1:{silent.port}"
        assert notified == {
            address: "sent",
            "$HOOK_URL": "sent",
            "$CHAT_URL": "sent",
            "$BROKEN_URL": "it answered with the HTTP status 500",
            "$ODD_URL": "the URL cannot be used. Write it as apprise documents it for the service",
            "$UNSET_URL": "the environment variable UNSET_URL is not set. Set it to a URL of apprise",
            silent_url: "no reply within 6 s",
        }
        printed = capsys.readouterr()
        assert SECRET not in printed.out + printed.err + everything_written(folder)
        assert "notify: $BROKEN_URL was not notified: it answered with the HTTP status 500" in printed.out

        nightly(folder, *rules)
        assert run_nightly(config) == EXIT_OK
        assert (len(mail.taken), len(hook.taken)) == (1, 2), "the check still fails, but not newly"

        code, said = call(monkeypatch, capsys, "nightly", config, "--test-notify")
        assert (code, "3 targets accepted the test message, 0 did not" in said) == (EXIT_OK, True)
        assert (len(mail.taken), len(hook.taken)) == (2, 4)
        nightly(folder, *rules, {"when": "changed", "to": broken_ones})
        code, said = call(monkeypatch, capsys, "nightly", config, "--test-notify")
        assert (code, "3 targets accepted the test message, 4 did not" in said) == (EXIT_FAILURES, True)
        assert SECRET not in said


def test_a_killed_night_notifies_nobody_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with webhook() as hook, webhook() as other:
        rules = [{"when": "new", "to": [f"json://127.0.0.1:{each.port}/"]} for each in (hook, other)]

        class Killed(Exception):
            pass

        write_night = Night.write

        def killing(self: Night, place: Folder) -> None:
            write_night(self, place)
            if "notified" in self.notes:
                raise Killed

        monkeypatch.setattr(Night, "write", killing)
        with pytest.raises(Killed):
            run_nightly(nightly(folder, *rules))
        monkeypatch.setattr(Night, "write", write_night)
        assert run_nightly(folder / "nightly.yaml") == EXIT_CHANGED
        counts = sorted((len(hook.taken), len(other.taken)))
        assert counts in ([1, 1], [1, 2]), "only what was on its way may be sent twice"
        assert set(last(folder).notes["notified"].values()) == {"sent"}


def test_a_night_that_fails_or_is_over_budget_tells(
    folder: Path, reader: FakeOpenAI, capsys: pytest.CaptureFixture[str]
) -> None:
    with webhook() as hook:
        rules = {"when": ["night failed", "over budget"], "to": [f"json://127.0.0.1:{hook.port}/"]}
        with pytest.raises(OverBudget):
            run_nightly(nightly(folder, rules, budget_usd=1e-9))
        [(_, said)] = hook.taken
        assert said["title"].endswith(": over budget")
        assert said["type"] == "failure"
        assert "Nothing was spent. Raise budget_usd" in said["message"]
        reader.key = "another"
        with pytest.raises((OkraError, NightStopped)) as error:
            run_nightly(nightly(folder, rules, budget_usd=None))
        assert error.value.exit_code == EXIT_ENDPOINT
        assert (len(hook.taken), hook.taken[1][1]["title"].endswith(": night failed")) == (2, True)


def test_the_library_is_only_loaded_to_send() -> None:
    script = "import sys, okralong.jobs.nightly; print('apprise' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "False\n"
    )


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_message_follows_a_redirect(
    status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with webhook() as other, webhook(status, location=f"http://localhost:{other.port}/{SECRET}") as hook:
        for name, scheme in (("HOOK_URL", "json"), ("CHAT_URL", "mmost")):
            monkeypatch.setenv(name, f"{scheme}://127.0.0.1:{hook.port}/{'x' * 26}")
        rule = Rule(when=["changed"], to=[FromEnvironment(env="HOOK_URL"), FromEnvironment(env="CHAT_URL")])
        assert not notify.try_targets(Console(width=200), [rule])
    assert len(hook.taken) == 2
    assert other.taken == []
    said = capsys.readouterr().out
    assert said.count(f"HTTP status {status} and would pass the message on to another address") == 2
    assert SECRET not in said


def test_slack_gets_plain_text_under_the_title(monkeypatch: pytest.MonkeyPatch) -> None:
    from apprise.plugins.slack import NotifySlack

    rule = Rule(when=["changed"], to=[FromEnvironment(env="SLACK_URL")])
    with webhook() as hook:
        monkeypatch.setattr(NotifySlack, "webhook_url", f"http://127.0.0.1:{hook.port}")
        monkeypatch.setenv("SLACK_URL", "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#desk")
        assert notify.try_targets(Console(), [rule])
    [(path, body)] = hook.taken
    assert path == "/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
    said = json.dumps(body)
    assert "test message" in said
    assert "before: 100,000 USD\\n  after: 112,000 USD" in said
