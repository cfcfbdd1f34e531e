"""Errors as Google sends them: ``{"error": {"code", "message", "status", "details"}}``.

Messages are from its API as far as they are known; clients must go by code, status and details. A key that is not valid
is a 400 at this API, not a 401.
"""

from __future__ import annotations

from typing import Any, Final

from tests.fakes.endpoint.problems import Problem

TYPE: Final = "type.googleapis.com/google.rpc."
STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
RPC_CODES: Final = {400: 3, 403: 7, 404: 5, 429: 8, 500: 13, 503: 14, 504: 4}
"""Codes of google.rpc.Status, which errors within a batch have."""
QUOTA: Final = "generativelanguage.googleapis.com/generate_content_paid_tier_"


def error_body(status: int, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    """The body of an error response."""
    told = {"code": status, "message": message, "status": STATUSES.get(status, "UNKNOWN")}
    return {"error": {**told, "details": list(details)} if details else told}


def as_google(problem: Problem) -> dict[str, Any]:
    """What Google says where OpenAI would say ``problem``."""
    code, status, message = problem.code or "", problem.status, str(problem)
    if code == "invalid_api_key":
        info = {"@type": f"{TYPE}ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
        return error_body(400, "API key not valid. Please pass a valid API key.", info)
    if status == 401:
        return error_body(
            403,
            "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or "
            "other form of API consumer identity to call this API.",
        )
    if code == "insufficient_quota":
        return _exhausted("GenerateRequestsPerDayPerProjectPerModel", "requests", "10000", 18.0)
    if status == 429:
        kind = "InputTokens" if "tokens per min" in message else "Requests"
        wait_s = float(problem.headers.get("retry-after-ms", 1000)) / 1000
        name = f"Generate{kind}PerMinutePerProjectPerModel"
        return _exhausted(name, "input_token_count" if kind == "InputTokens" else "requests", "500", wait_s)
    if code == "context_length_exceeded":
        return error_body(400, "The input token count exceeds the maximum number of tokens allowed (1048576).")
    if code == "model_not_found":
        name = message.split("`")[1]
        return error_body(
            404,
            f"models/{name} is not found for API version v1beta, or is not supported for generateContent. Call "
            "ListModels to see the list of available models and their supported methods.",
        )
    if status == 503:
        return error_body(503, "The model is overloaded. Please try again later.")
    if status == 500:
        return error_body(500, "An internal error has occurred. Please retry.")
    if problem.body["error"]["param"] == "response_format":
        violation = {"field": "generation_config.response_json_schema", "description": "JSON schema is not supported."}
        said = "* GenerateContentRequest.generation_config.response_json_schema: JSON schema is not supported."
        return error_body(400, said, {"@type": f"{TYPE}BadRequest", "fieldViolations": [violation]})
    return error_body(status, message)


def _exhausted(quota_id: str, metric: str, limit: str, wait_s: float) -> dict[str, Any]:
    message = (
        "You exceeded your current quota, please check your plan and billing details. For more information on this "
        "error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.\n* Quota exceeded for metric: "
        f"{QUOTA}{metric}, limit: {limit}\nPlease retry in {wait_s}s."
    )
    violation = {"quotaMetric": f"{QUOTA}{metric}", "quotaId": quota_id, "quotaValue": limit}
    return error_body(
        429,
        message,
        {"@type": f"{TYPE}QuotaFailure", "violations": [violation]},
        {"@type": f"{TYPE}RetryInfo", "retryDelay": f"{wait_s}s"},
    )


def rpc_status(problem: Problem) -> dict[str, Any]:
    """The error of one request of a batch."""
    told = as_google(problem)["error"]
    return {"code": RPC_CODES.get(told["code"], 2), "message": told["message"]}
