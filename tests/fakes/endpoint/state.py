"""Everything that one endpoint knows while it runs. All of it belongs to a single event loop, so nothing is locked."""

from __future__ import annotations

import asyncio
import time
from decimal import Decimal
from typing import Any

from okralong.pipelines.core.types import Usage
from tests.fakes.endpoint.batch import Batch
from tests.fakes.endpoint.bill import Bill, Lane
from tests.fakes.endpoint.chat_call import ChatCall
from tests.fakes.endpoint.faults import Faults
from tests.fakes.endpoint.files import FileStore
from tests.fakes.endpoint.journal import Entry, Journal, fingerprint
from tests.fakes.endpoint.prefix_cache import PrefixCache
from tests.fakes.endpoint.problems import insufficient_quota, no_key, over_limit, wrong_key
from tests.fakes.endpoint.quota import Quota
from tests.fakes.endpoint.scenario import Scenario
from tests.fakes.endpoint.tokens import PromptTokens


class Endpoint:
    """The account at the provider: scenario, bill, journal, quotas, caches, files and batches."""

    def __init__(self, scenario: Scenario) -> None:
        self.tokens = PromptTokens()
        self.tasks: set[asyncio.Task[None]] = set()
        self.reset(scenario)

    def reset(self, scenario: Scenario) -> None:
        """As if freshly started with ``scenario``. Batches that are being worked on are dropped."""
        for task in self.tasks:
            task.cancel()
        self.tasks = set()
        self.scenario = scenario
        self.bill = Bill()
        self.journal = Journal()
        self.files = FileStore()
        self.batches: dict[str, Batch] = {}
        self.prefixes = PrefixCache()
        self.faults = Faults(scenario.script, scenario.faults, scenario.seed)
        self._quotas: dict[str, Quota] = {}
        self._born = time.monotonic()

    def change(self, patch: dict[str, Any]) -> None:
        """Go on under a changed scenario. New limits start with full stores, new faults count from the start.

        Raises pydantic's ValidationError, and changes nothing, when the outcome is no scenario.
        """
        old, self.scenario = self.scenario, self.scenario.changed(patch)
        if self.scenario.limits != old.limits:
            self._quotas = {}
        if {"script", "faults", "seed"} & set(patch):
            self.faults = Faults(self.scenario.script, self.scenario.faults, self.scenario.seed)

    def now(self) -> float:
        """Seconds since the start or the last reset."""
        return time.monotonic() - self._born

    def authorize(self, authorization: str) -> str:
        """The key of an Authorization header. Raises Problem when it is missing, unknown or revoked."""
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer" or not key:
            raise no_key()
        if key in self.scenario.revoked_keys or (self.scenario.keys and key not in self.scenario.keys):
            raise wrong_key(key)
        return key

    def revoke(self, key: str) -> None:
        """Refuse ``key`` from now on."""
        self.scenario = self.scenario.changed({"revoked_keys": [*self.scenario.revoked_keys, key]})

    def check_credit(self) -> None:
        """Raises Problem when the bill has used up the account's credit."""
        credit = self.scenario.credit_usd
        if credit is not None and self.bill.usd >= Decimal(repr(credit)):
            raise insufficient_quota()

    def quota(self, model: str) -> Quota:
        """The rate limits of a model."""
        if model not in self._quotas:
            self._quotas[model] = Quota(self.scenario.limits, self.now())
        return self._quotas[model]

    def admit(self, call: ChatCall, entry: Entry, apart: tuple[int, int] | None = None) -> dict[str, str]:
        """Let a request past the rate limits; returns the headers that say what is left. Raises Problem with them.

        ``apart`` are the tokens of prompt and reply where they have limits of their own.
        """
        limits, quota = self.scenario.limits, self.quota(call.name)
        now = self.now()
        tokens, output_tokens = apart or (call.reserved(limits), 0)
        refusal = quota.admit(now, tokens, output_tokens)
        headers = quota.headers(now)
        if refusal is not None:
            problem = over_limit(refusal, call.name, limits)
            problem.headers.update(headers)
            raise problem
        entry.admitted_s = now
        entry.reserved_tokens = tokens
        return headers

    def cached(self, call: ChatCall) -> tuple[int, int]:
        """Tokens of the call's prompt that the prompt cache holds, and those that it takes in where that is charged."""
        settings = self.scenario.prompt_cache
        held = self.prefixes.known(settings, call.name, call.ids, self.now())
        if call.model.rates.cache_write is None:
            return held, 0
        return held, self.prefixes.cacheable(settings, call.ids) - held

    def charge(self, entry: Entry, call: ChatCall, usage: Usage, lane: Lane) -> None:
        """Put one reply on the bill and into the journal, and its prompt into the cache."""
        settings = self.scenario
        share = {"chat": 1.0, "flex": settings.flex.price_share, "batch": settings.batches.price_share}[lane]
        entry.usage = usage
        cached_share = settings.batches.cached_share if lane == "batch" else None
        rates = call.model.rates_of(usage.prompt_tokens)
        entry.billed_usd = self.bill.charge(lane, rates, usage, share, cached_share)
        self.prefixes.learn(settings.prompt_cache, call.name, call.ids, self.now())

    def public(self, received: bool) -> dict[str, Any]:
        """The state as JSON for tests; ``received`` adds the whole journal."""
        state: dict[str, Any] = {
            "bill_usd": f"{self.bill.usd:f}",
            "bill": {lane: line.public() for lane, line in self.bill.lines.items()},
            "counts": self.journal.counts(),
            "revoked_keys": [fingerprint(key) for key in self.scenario.revoked_keys],
            "files": len(self.files.all()),
            "batches": {batch.id: batch.status for batch in self.batches.values()},
        }
        return state | ({"received": [entry.public() for entry in self.journal.entries]} if received else {})
