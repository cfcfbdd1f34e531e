"""Google's Gemini protocol at the scripted endpoint: ``generateContent`` (whole or as events), ``countTokens``, models,
files and batches, at ``/v1beta``.

Scenario, faults, quotas, prompt cache, bill and the life of a batch are those of ``tests.fakes.endpoint``, in the same
process: ``EndpointProcess().google_url`` is its address. Requests are turned into OpenAI's form, which the shared parts
judge and answer, and what they say is turned back. Bodies are those of https://ai.google.dev/api (its text of 2026);
where the real one's behaviour is not known for sure, the file that models it says so.
"""
