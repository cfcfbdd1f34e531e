"""Errors in OpenAI's words: status, message, type, code and param as its API sends them.

Messages are from its API or its guides as far as they are known by heart; clients must go by status and code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.fakes.endpoint.fault_rule import FaultRule
from tests.fakes.endpoint.quota import Refusal, retry_headers
from tests.fakes.endpoint.scenario import Limits

ORGANIZATION = "org-fake"


class Problem(Exception):
    """A request that is answered by an error. ``headers`` go out with it."""

    def __init__(
        self,
        status: int,
        message: str,
        kind: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})
        self.body: dict[str, Any] = {"error": {"message": message, "type": kind, "param": param, "code": code}}


def no_key() -> Problem:
    """The request names no key."""
    message = "You didn't provide an API key. You need to provide it in an Authorization header using Bearer auth."
    return Problem(401, message)


def wrong_key(key: str) -> Problem:
    """The key is unknown or revoked; it is repeated masked, as OpenAI does."""
    shown = f"{key[:8]}{'*' * max(0, len(key) - 12)}{key[-4:]}"
    message = (
        f"Incorrect API key provided: {shown}. You can find your API key at "
        "https://platform.openai.com/account/api-keys."
    )
    return Problem(401, message, code="invalid_api_key")


def insufficient_quota() -> Problem:
    """The account has no credit left: a 429 that no waiting mends."""
    message = "You exceeded your current quota, please check your plan and billing details."
    return Problem(429, message, "insufficient_quota", "insufficient_quota")


def flex_is_full() -> Problem:
    """The flex tier has no capacity now: a 429 that is not billed. Code as in OpenAI's guide; the words are ours."""
    message = "Flex resources are unavailable at the moment. Please try again later."
    return Problem(429, message, "resource_unavailable", "resource_unavailable")


def missing(param: str) -> Problem:
    """A parameter that must be there is not."""
    return Problem(400, f"Missing required parameter: '{param}'.", code="missing_required_parameter", param=param)


def invalid(param: str, message: str) -> Problem:
    """A parameter has a value that is not taken."""
    return Problem(400, message, code="invalid_value", param=param)


def not_found(what: str, identifier: str) -> Problem:
    """There is no such object."""
    return Problem(404, f"No such {what} object: {identifier}", param="id")


def unknown_model(name: str) -> Problem:
    """The model does not exist for this account."""
    message = f"The model `{name}` does not exist or you do not have access to it."
    return Problem(404, message, code="model_not_found")


def context_length(window: int, prompt_tokens: int, completion_tokens: int) -> Problem:
    """Prompt and reply together do not fit the model's window."""
    message = (
        f"This model's maximum context length is {window} tokens. However, you requested "
        f"{prompt_tokens + completion_tokens} tokens ({prompt_tokens} in the messages, {completion_tokens} in the "
        "completion). Please reduce the length of the messages or completion."
    )
    return Problem(400, message, code="context_length_exceeded", param="messages")


def over_limit(refusal: Refusal, model: str, limits: Limits) -> Problem:
    """A rate limit is reached."""
    unit = "RPM" if refusal.name == "requests" else "TPM"
    which = f"{model} in organization {ORGANIZATION} on {refusal.name} per min ({unit}): Limit {refusal.limit}"
    if refusal.wait_s is None:
        message = (
            f"Request too large for {which}, Requested {refusal.requested}. The input or output tokens must be reduced "
            "in order to run successfully."
        )
        return Problem(429, message, refusal.name, "rate_limit_exceeded")
    message = (
        f"Rate limit reached for {which}, Used {refusal.used}, Requested {refusal.requested}. "
        f"Please try again in {refusal.wait_s:.3f}s."
    )
    headers = retry_headers(refusal.wait_s, limits.retry_after)
    return Problem(429, message, refusal.name, "rate_limit_exceeded", headers=headers)


def scripted(rule: FaultRule, key: str) -> Problem | None:
    """The error status of a scripted fault; None for a fault that has none."""
    headers = {} if rule.retry_after_s is None else retry_headers(rule.retry_after_s, "both")
    if rule.kind == "server_error":
        message = "The server had an error while processing your request. Sorry about that!"
        return Problem(500, message, "server_error", headers=headers)
    if rule.kind == "bad_gateway":
        return Problem(502, "Bad gateway.", "cf_bad_gateway", headers=headers)
    if rule.kind == "unavailable":
        message = "The engine is currently overloaded, please try again later."
        return Problem(503, message, "server_error", "overloaded", headers=headers)
    if rule.kind == "rate_limited":
        return Problem(429, "Rate limit reached.", "requests", "rate_limit_exceeded", headers=headers)
    if rule.kind == "insufficient_quota":
        return insufficient_quota()
    if rule.kind == "context_length":
        message = "Your input exceeds the context window of this model. Please adjust your input and try again."
        return Problem(400, message, code="context_length_exceeded", param="messages")
    return wrong_key(key) if rule.kind == "revoked_key" else None
