"""Which request meets which scripted fault: in order, at the n-th, or by share."""

from __future__ import annotations

from collections import Counter

from tests.fakes.endpoint.draws import draw
from tests.fakes.endpoint.fault_rule import FaultKind, FaultRule, Where


class Faults:
    """The script and the rules of a scenario, and how far they have come. Counting starts when they are set."""

    def __init__(self, script: list[FaultKind | None], rules: list[FaultRule], seed: int) -> None:
        self._script = list(script)
        self._rules = rules
        self._seed = seed
        self._arrived: Counter[Where] = Counter()
        self._came: Counter[tuple[Where, str]] = Counter()
        self._fired: Counter[int] = Counter()

    def meet(self, where: Where, request_hash: str, text: str) -> FaultRule | None:
        """The fault of this request. Each call counts it as having come once more."""
        self._arrived[where] += 1
        self._came[where, request_hash] += 1
        if where == "chat" and self._script and (kind := self._script.pop(0)) is not None:
            return FaultRule(kind=kind)
        for number, rule in enumerate(self._rules):
            if rule.where == where and self._fires(number, rule, request_hash, text):
                self._fired[number] += 1
                return rule
        return None

    def attempt(self, where: Where, request_hash: str) -> int:
        """How often this very request has come."""
        return self._came[where, request_hash]

    def _fires(self, number: int, rule: FaultRule, request_hash: str, text: str) -> bool:
        attempt = self.attempt(rule.where, request_hash)
        return (
            (rule.times is None or self._fired[number] < rule.times)
            and (not rule.at or self._arrived[rule.where] in rule.at)
            and (not rule.attempts or attempt in rule.attempts)
            and rule.contains in text
            and (rule.share is None or draw(self._seed, "fault", number, request_hash, attempt) < rule.share)
        )
