"""Money: what a token costs, the hard cap in dollars, and what a run was billed.

Prices are a dated table in a YAML file. A model without a price is refused, because a cap in dollars means nothing for
a call whose cost nobody knows.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field

from okralong.pipelines.core.config import Settings, load_config
from okralong.pipelines.core.types import ConfigError, Usage

Dollars = Annotated[float, Field(ge=0, le=10_000)]
Share = Annotated[float, Field(ge=0, le=1)]

MILLION = 1_000_000


class Rates(Settings):
    """US dollars per million tokens: ``input`` of prompts, ``output`` of replies, thought included. ``cached_input`` is
    for prompt tokens that the endpoint took from its cache, ``cache_write`` for those that it put there (None: as
    ``input``).
    """

    input: Dollars
    cached_input: Dollars
    output: Dollars
    cache_write: Dollars | None = None

    @property
    def written(self) -> float:
        """What a prompt token costs that is written to the cache."""
        return self.input if self.cache_write is None else self.cache_write


class LongRates(Rates):
    """The rates of a request whose prompt has more than ``above`` tokens: all of its tokens are charged at them."""

    above: Annotated[int, Field(ge=1)]


class Price(Rates):
    """The rates of a model, and what it costs in other ways.

    ``batch_discount`` is the share by which calls that may wait for their replies (a batch) are cheaper; 0: not at all.
    ``batch_caches``: cached tokens of a batch have their own rate, with the discount; False: they cost as fresh ones.
    ``flex_discount`` is the share by which the flex tier is cheaper; 0: there is none. ``longer`` are the rates of
    longer prompts.
    """

    batch_discount: Share = 0.0
    batch_caches: bool = False
    flex_discount: Share = 0.0
    longer: list[LongRates] = Field(default_factory=list)

    def cost(self, usage: Usage) -> float:
        """Dollars for one reply. Cached and written tokens are part of the prompt tokens, and each has its own rate."""
        rates = self.rates(usage.prompt_tokens)
        fresh = usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens
        return (
            fresh * rates.input
            + usage.cached_tokens * rates.cached_input
            + usage.cache_write_tokens * rates.written
            + usage.completion_tokens * rates.output
        ) / MILLION

    def most(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Dollars for one reply at most: nothing is cached, and all of the prompt may be written to the cache.

        Of several calls together it is the most as well, since longer prompts cost more a token.
        """
        rates = self.rates(prompt_tokens)
        return (prompt_tokens * max(rates.input, rates.written) + completion_tokens * rates.output) / MILLION

    def rates(self, prompt_tokens: int) -> Rates:
        """The rates of a request with such a prompt."""
        above = [each for each in self.longer if prompt_tokens > each.above]
        return max(above, key=lambda each: each.above) if above else self

    def charged(self, prompt_tokens: int) -> Price:
        """The price of a request with such a prompt alone, as its ledger row has it."""
        rates = self.rates(prompt_tokens)
        return Price(
            input=rates.input, cached_input=rates.cached_input, output=rates.output, cache_write=rates.cache_write
        )

    def in_batch(self) -> Price:
        """The price in a batch; cached tokens on the safe side unless the price says that they are cheaper there."""
        return self._at(1 - self.batch_discount, self.batch_caches)

    def in_flex(self) -> Price:
        """The price of a reply that names the flex tier."""
        return self._at(1 - self.flex_discount, caches=True)

    def _at(self, share: float, caches: bool) -> Price:
        def lowered(rates: Rates) -> dict[str, float]:
            cached = rates.cached_input if caches else rates.input
            lower = {"input": rates.input * share, "cached_input": cached * share, "output": rates.output * share}
            return lower if rates.cache_write is None else {**lower, "cache_write": rates.cache_write * share}

        longer = [{**lowered(each), "above": each.above} for each in self.longer]
        return Price.model_validate({**lowered(self), "longer": longer})


def highest(prices: Sequence[Price]) -> Price:
    """What a token costs at most, whichever of ``prices`` holds."""

    def most(tokens: int) -> dict[str, float]:
        rates = [price.rates(tokens) for price in prices]
        return {
            "input": max(each.input for each in rates),
            "cached_input": max(each.cached_input for each in rates),
            "output": max(each.output for each in rates),
            "cache_write": max(each.written for each in rates),
        }

    bounds = sorted({each.above for price in prices for each in price.longer})
    longer = [{**most(above + 1), "above": above} for above in bounds]
    return Price.model_validate({**most(0), "longer": longer})


def usage_of(row: Mapping[str, Any]) -> Usage:
    """The tokens of a ledger row, which may be of a version that knew fewer kinds."""
    return Usage(
        row["prompt_tokens"],
        row["cached_tokens"],
        row["completion_tokens"],
        row.get("reasoning_tokens") or 0,
        row.get("cache_write_tokens") or 0,
    )


class ListedPrice(Price):
    """A price with the day from which it holds (``since``) and where it was read (``source``)."""

    since: str
    source: str


_SNAPSHOT: Final = re.compile(r"-20\d\d-\d\d-\d\d\Z")


class PriceTable(Settings):
    """All prices, of ``models`` by name. ``checked`` is the day on which somebody last looked."""

    checked: str
    models: dict[str, ListedPrice]

    @classmethod
    def load(cls, source: str = "prices.yaml") -> PriceTable:
        """The shipped table, or the one in a file of your own."""
        return load_config(cls, source)

    def price(self, model: str, override: Price | None = None) -> Price:
        """The price of ``model``; ``override`` (``llm.price`` in the config) wins. A dated snapshot that is not listed
        has that of its name. Raises ConfigError when unknown.
        """
        if override is not None:
            return override
        listed = model if model in self.models else _SNAPSHOT.sub("", model)
        if listed not in self.models:
            known = ", ".join(sorted(self.models))
            raise ConfigError(
                f"There is no price for the model {model!r}, so budget_usd could not be kept. Add it to "
                "configs/prices.yaml, or give llm.price (input, cached_input and output in US dollars per million "
                f"tokens; 0 for a model of your own) in the config. Known models: {known}."
            )
        return self.models[listed]


PICO = 1_000_000_000_000
"""Of a dollar. A token costs a whole number of picodollars, so that sums are exact and the cap is a cap."""

CallKey = tuple[str, int]
"""``(call_id, attempt)``."""


def picodollars(usd: float) -> int:
    """Dollars as a whole number of picodollars."""
    return round(usd * PICO)


WORST: Final = 4
"""How many times its reserve a call is taken to cost while nobody knows how the endpoint counts: its tokenizer may need
more tokens than ours for the same text, and some servers write longer replies than they are asked for. Ours; text of
other scripts takes two to three times as many tokens with one public tokenizer as with another."""

ENOUGH_SEEN: Final = 16
"""Calls after which the costs that were seen say how the endpoint counts; ours."""


FIRST_LINES: Final = 4
"""Calls that may wait for a batch while no reply has kept its limit yet, where the cap could not bear the longest
replies of all of them. # project default"""

LINES_PER_REPLY: Final = 64
"""Calls that may wait for a batch for each reply that has kept its limit: a batch may take a day, so the second one may
be large. # project default"""


@dataclass(slots=True)
class _Open:
    query_id: str
    reserve: int
    held: int
    drawn: int
    waits: bool
    most: int
    overlong_seen: int


class Budget:
    """The hard cap: what is spent, what may have been spent, and what is reserved never pass ``cap_usd`` together.

    A question is *admitted* with a reserve for its plan. Each call then *reserves* its worst case, first from its own
    question's reserve and then from what is free. Settling a call gives the rest back. A call of which nobody knows
    whether it was billed stays held in full. ``cap_usd`` None means no cap; the sums are kept all the same. Pure: no
    clock, no files, no waiting.

    A reserve is our own count of tokens, and the endpoint may count more. So beside a call in flight another one goes
    only where all of them together would stay under the cap at several times their reserves: ``WORST`` times until
    ``ENOUGH_SEEN`` calls have cost something, then twice the largest share of its reserve that one has cost, and once
    at least. Near the cap few are in flight therefore, at the end one, and the cap is passed by what one call costs
    beyond its reserve at most, as long as no call costs more than that many times its own. Calls that wait for a batch
    are left out of it: a batch in parts would take a day for each.

    For these there is a bound of their number instead, which grows with the replies that have kept their limits
    (``FIRST_LINES``, ``LINES_PER_REPLY``), unless the cap bears the longest replies of all of them.

    An endpoint may also ignore the limit of a reply. Where all calls in flight would stay under the cap even then, any
    number goes. Else one goes beside so many others as replies have kept their limits, and after one that has not,
    none before all of those in flight are over; from then on each call has to fit with the share of its reserve that
    the longest reply has cost. So the cap is passed at most by what the replies in flight at the first that ignored
    its limit cost beyond their reserves, and by what a later one costs beyond the longest until then.
    """

    def __init__(self, cap_usd: float | None) -> None:
        self._cap = None if cap_usd is None else picodollars(cap_usd)
        self._settled = 0
        self._unknown: dict[CallKey, int] = {}
        self._unknown_total = 0
        self._calls: dict[CallKey, _Open] = {}
        self._questions: dict[str, int] = {}
        self._committed = 0
        self._in_flight = 0
        self._seen = 0
        self._largest_share = 0.0
        self._count_in_flight = 0
        self._most_in_flight = 0
        self._limits_kept = 0
        self._overlong_share = 1.0
        self._overlong_seen = 0
        self._lines = 0
        self._most_in_batches = 0

    @property
    def cap_usd(self) -> float | None:
        """The cap."""
        return None if self._cap is None else self._cap / PICO

    @property
    def settled_usd(self) -> float:
        """Dollars that the endpoint charged, as its replies' usage says."""
        return self._settled / PICO

    @property
    def unknown_usd(self) -> float:
        """Dollars held for calls of which nobody knows whether they were billed."""
        return self._unknown_total / PICO

    @property
    def reserved_usd(self) -> float:
        """Dollars promised to calls in flight and to admitted questions."""
        return self._committed / PICO

    @property
    def open_questions(self) -> set[str]:
        """Questions that are admitted and not closed."""
        return set(self._questions)

    @property
    def calls_in_flight(self) -> int:
        """Calls that are reserved and neither settled nor held as unknown."""
        return len(self._calls)

    def restore(self, settled_usd: float, unknown_usd: dict[CallKey, float]) -> None:
        """Start from what an earlier process spent and left unknown."""
        self._settled = picodollars(settled_usd)
        self._unknown = {key: picodollars(usd) for key, usd in unknown_usd.items()}
        self._unknown_total = sum(self._unknown.values())

    def hopeless(self, usd: float, query_id: str = "") -> bool:
        """Whether ``usd`` more would not fit even when all that others have reserved came back."""
        if self._cap is None:
            return False
        own = self._questions.get(query_id, 0)
        return self._settled + self._unknown_total + max(own, self._with_overlength(picodollars(usd))) > self._cap

    def lacks(self, usd: float) -> bool:
        """Return whether there is no room for ``usd`` more now."""
        return not self._fits(self._with_overlength(picodollars(usd)))

    def admit(self, query_id: str, usd: float) -> bool:
        """Set ``usd`` aside for a question; False when it does not fit now. Again for the same question: at least it.

        A question that is posed again after its planner died is so not charged twice.
        """
        more = picodollars(usd) - self._questions.get(query_id, 0)
        if more > 0 and not self._fits(more):
            return False
        self._questions.setdefault(query_id, 0)
        if more > 0:
            self._questions[query_id] += more
            self._committed += more
        return True

    def reserve(self, key: CallKey, query_id: str, usd: float, waits: bool = False, most_usd: float = 0.0) -> bool:
        """Set the worst case of a call aside; False when it does not fit now. Twice for one key is once. ``waits``: it
        goes with a batch. ``most_usd`` is what it costs at most where its limit is ignored; 0 leaves that out.
        """
        if key in self._calls:
            return True
        amount = picodollars(usd)
        most = picodollars(most_usd)
        held = self._with_overlength(amount)
        drawn = min(held, self._questions.get(query_id, 0))
        if not self._fits(held - drawn):
            return False
        if not (self._safe_in_batch(most) if waits else self._safe_beside_others(amount, most)):
            return False
        if waits:
            self._lines += 1
            self._most_in_batches += most
        else:
            self._in_flight += amount
            self._count_in_flight += 1
            self._most_in_flight += most
        if drawn:
            self._questions[query_id] -= drawn
        self._committed += held - drawn
        self._calls[key] = _Open(query_id, amount, held, drawn, waits, most, self._overlong_seen)
        return True

    def _safe_in_batch(self, most: int) -> bool:
        """Whether a call may wait for a batch beside the others, should the endpoint ignore the limit of its reply."""
        if self._cap is None or self._lines < max(FIRST_LINES, LINES_PER_REPLY * self._limits_kept):
            return True
        spent = self._settled + self._unknown_total
        return most > 0 and spent + self._most_in_flight + self._most_in_batches + most <= self._cap

    def _safe_beside_others(self, amount: int, most: int) -> bool:
        """Whether a call may go beside those in flight, should the endpoint count more than we do or write more than
        it was asked for.
        """
        if self._cap is None or self._count_in_flight == 0 or not amount:
            return True
        spent = self._settled + self._unknown_total
        times = WORST if self._seen < ENOUGH_SEEN else max(1.0, 2 * self._largest_share)
        if spent + times * (self._in_flight + amount) > self._cap:
            return False
        if not most or self._count_in_flight <= self._limits_kept:
            return True
        return spent + self._most_in_flight + most <= self._cap

    def _with_overlength(self, amount: int) -> int:
        """What a call costs that is as much longer than its limit as the longest reply was."""
        return math.ceil(amount * self._overlong_share) if self._overlong_share > 1 else amount

    def may_go(self, key: CallKey) -> bool:
        """Whether a call that is reserved may still be sent: not where a reply has ignored its limit since then."""
        call = self._calls.get(key)
        return self._cap is None or call is None or call.overlong_seen == self._overlong_seen

    def holds(self, key: CallKey) -> bool:
        """Whether a call is reserved, or held as unknown."""
        return key in self._calls or key in self._unknown

    def in_doubt(self, key: CallKey) -> bool:
        """Whether a call is held as unknown."""
        return key in self._unknown

    def calls_of(self, query_id: str) -> list[CallKey]:
        """The calls of a question that are reserved and neither settled nor held as unknown."""
        return [key for key, call in self._calls.items() if call.query_id == query_id]

    def settle(self, key: CallKey, cost_usd: float, *, overlong: bool = False) -> None:
        """A call is over and cost ``cost_usd`` (0 for one that failed). Also for one held as unknown until now.
        ``overlong``: the endpoint ignored the limit of its reply.
        """
        cost = picodollars(cost_usd)
        self._settled += cost
        if key in self._unknown:
            held = self._unknown.pop(key)
            self._unknown_total -= held
            self._learn(cost, held, overlong)
            return
        call = self._taken(key)
        if call is None:
            return
        self._learn(cost, call.reserve, overlong)
        self._committed -= call.held
        back = min(call.drawn, max(0, call.held - cost))
        if call.query_id in self._questions:
            self._questions[call.query_id] += back
            self._committed += back

    def _learn(self, cost: int, reserve: int, overlong: bool) -> None:
        """See by a reply what share of its reserve it has cost, and whether it has kept its limit."""
        if not cost or not reserve:
            return
        self._seen += 1
        share = cost / reserve
        self._largest_share = max(self._largest_share, share)
        self._limits_kept = 0 if overlong else self._limits_kept + 1
        if overlong:
            self._overlong_seen += 1
            self._overlong_share = max(self._overlong_share, share)

    def hold_unknown(self, key: CallKey) -> None:
        """Nobody knows whether the call was billed: hold its whole reserve from now on."""
        call = self._taken(key)
        if call is not None:
            self._committed -= call.held
            self._unknown[key] = call.held
            self._unknown_total += call.held

    def close(self, query_id: str) -> list[CallKey]:
        """A question is over: free what it had left. Calls of it still in flight become unknown and are returned."""
        self._committed -= self._questions.pop(query_id, 0)
        left = self.calls_of(query_id)
        for key in left:
            self.hold_unknown(key)
        return left

    def _taken(self, key: CallKey) -> _Open | None:
        call = self._calls.pop(key, None)
        if call is not None and call.waits:
            self._lines -= 1
            self._most_in_batches -= call.most
        elif call is not None:
            self._in_flight -= call.reserve
            self._count_in_flight -= 1
            self._most_in_flight -= call.most
        return call

    def _fits(self, amount: int) -> bool:
        return self._cap is None or self._settled + self._unknown_total + self._committed + amount <= self._cap


ARTIFACT: Final = "artifact/"
"""Opens the query_id of calls that made something for many questions, such as a document's summaries."""

UNIT_PRICES: Final = [
    "input_usd_per_million",
    "cached_usd_per_million",
    "output_usd_per_million",
    "cache_write_usd_per_million",
]

COLUMNS: Final = [
    "query_id",
    "status",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "cache_write_tokens",
    *UNIT_PRICES,
    "cost_usd",
    "tags",
    "mode",
]
"""Of the ledger: what ``bill`` needs of a row."""


@dataclass(frozen=True, slots=True)
class Bill:
    """US dollars of a run, without attempts of which nobody knows whether they were billed.

    ``billed_usd`` is what the endpoint charged; ``alone_usd`` what it would have charged had no other run shared its
    replies, of which there are ``shared``. ``batch_usd`` was billed for the ``batch_calls`` that batches answered, and
    the rest of ``calls`` in real time. ``artifacts_usd`` was billed for the ``artifact_calls`` that belong to no
    question; it is in the other sums, and in no answer's cost. ``by_tag`` is the billed part of each tag; a call may
    have several.
    """

    billed_usd: float
    alone_usd: float
    shared: int
    by_tag: Mapping[tuple[str, str], float]
    calls: int = 0
    batch_usd: float = 0.0
    batch_calls: int = 0
    artifacts_usd: float = 0.0
    artifact_calls: int = 0


def bill(rows: Iterable[Mapping[str, Any]]) -> Bill:
    """The bill of ledger rows, each with ``COLUMNS``."""
    paid: list[float] = []
    spared: list[float] = []
    batched: list[float] = []
    artifacts: list[float] = []
    tags: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        if row["status"] == "cached":
            spared.append(alone_usd(row))
        elif row["status"] == "ok":
            paid.append(row["cost_usd"])
            if row["mode"] == "batch":
                batched.append(row["cost_usd"])
            if row["query_id"].startswith(ARTIFACT):
                artifacts.append(row["cost_usd"])
            for tag in row["tags"] or ():
                tags[tag].append(row["cost_usd"])
    by_tag = {tag: math.fsum(costs) for tag, costs in sorted(tags.items())}
    return Bill(
        billed_usd=math.fsum(paid),
        alone_usd=math.fsum([*paid, *spared]),
        shared=len(spared),
        by_tag=by_tag,
        calls=len(paid),
        batch_usd=math.fsum(batched),
        batch_calls=len(batched),
        artifacts_usd=math.fsum(artifacts),
        artifact_calls=len(artifacts),
    )


def alone_usd(row: Mapping[str, Any]) -> float:
    """What a call that brought a reply had cost if no other run had shared it: what was billed, else what its tokens
    cost at the row's own unit prices.
    """
    if row["status"] != "cached":
        return float(row["cost_usd"])
    price = Price(
        input=row["input_usd_per_million"],
        cached_input=row["cached_usd_per_million"],
        output=row["output_usd_per_million"],
        cache_write=row.get("cache_write_usd_per_million"),
    )
    return price.cost(usage_of(row))
