"""A faithful OpenAI-compatible endpoint: a process of its own, real sockets, true limits, and its own bill.

It models what a night's run meets at OpenAI, as far as it is documented or known from its replies: chat completions,
Files and Batches, rate limits, prompt caching, prices and what goes wrong. A scenario (``scenario.py``) says how it
behaves; replies depend on the prompt alone, so that two runs can be compared. Where the real one's behaviour is not
known for sure, the file that models it says so.

    with EndpointProcess({"limits": {"requests_per_minute": 500}}) as server:
        client = openai.AsyncOpenAI(base_url=server.base_url, api_key="sk-test", max_retries=0)
        ...
        server.change({"revoked_keys": ["sk-test"]})
        assert ledger_usd == server.bill_usd

By hand: ``python -m tests.fakes.endpoint --scenario FILE --port 8080``.
"""
