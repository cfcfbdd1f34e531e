"""Send the same requests with bespokelabs-curator, in an environment that need not have okralong.

    PYTHON benchmarks/nightly/curator.py REQUESTS URL IN_FLIGHT OUT

REQUESTS contains a request's parameters per line, as for ``bare.py``. CURATOR_CACHE_DIR is its cache, from which it
continues after a kill. Writes the replies to OUT, one per line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bespokelabs import curator
from datasets import Dataset


class Asked(curator.LLM):  # type: ignore[misc]
    """Passes messages through and returns the reply's text."""

    def prompt(self, input: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the messages of one row."""
        messages: list[dict[str, Any]] = json.loads(input["messages"])
        return messages

    def parse(self, input: dict[str, Any], response: str) -> dict[str, Any]:
        """Return the row with its reply."""
        return {"number": input["number"], "reply": response}


def main() -> None:
    requests = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    given = {name: value for name, value in requests[0].items() if name in ("temperature", "seed")}
    asked = Asked(
        model_name=requests[0]["model"],
        backend="openai",
        backend_params={
            "base_url": sys.argv[2],
            "api_key": "none",
            "max_concurrent_requests": int(sys.argv[3]),
            "max_requests_per_minute": 1_000_000,
            "max_tokens_per_minute": 1_000_000_000,
            "invalid_finish_reasons": [],
        },
        generation_params={**given, "max_tokens": max(request["max_tokens"] for request in requests)},
    )
    rows = [{"number": n, "messages": json.dumps(request["messages"])} for n, request in enumerate(requests)]
    found = asked(Dataset.from_list(rows))
    found = getattr(found, "dataset", found)
    with Path(sys.argv[4]).open("w", encoding="utf-8") as out:
        out.writelines(f"{json.dumps(row)}\n" for row in found)


if __name__ == "__main__":
    main()
