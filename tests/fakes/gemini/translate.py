"""A ``generateContent`` request in OpenAI's form, and a chat completion in Google's.

Unknown names are refused as Google refuses them. Not modelled, and refused the same way: tools, more than one
candidate, parts that are no text.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from tests.fakes.endpoint.problems import Problem
from tests.fakes.endpoint.scenario import Model

_FIELDS: Final = frozenset({"contents", "systemInstruction", "generationConfig", "model", "safetySettings"})
_CONFIG: Final = frozenset(
    {
        *("temperature", "topP", "topK", "seed", "maxOutputTokens", "stopSequences", "responseMimeType"),
        *("responseJsonSchema", "responseSchema", "responseLogprobs", "logprobs", "thinkingConfig", "candidateCount"),
    }
)
_ROLES: Final = {"user": "user", "model": "assistant"}
_FINISHED: Final = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
_PIECE: Final = 40
"""Characters of an event's text."""


class Wrong(Problem):
    """A request that is refused in Google's own words."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)


def as_chat(name: str, body: Mapping[str, Any], models: Mapping[str, Model]) -> dict[str, Any]:
    """The request as a body of OpenAI's. Raises Problem for what Google refuses."""
    for at, (given, known) in enumerate(((body, _FIELDS), (body.get("generationConfig") or {}, _CONFIG))):
        for field in given:
            where = " at 'generation_config'" if at else ""
            if field not in known:
                said = f'Invalid JSON payload received. Unknown name "{field}"{where}: Cannot find field.'
                raise Wrong(said)
            if name in models and field in models[name].refuses:
                raise Wrong(models[name].refuses[field])
    config = body.get("generationConfig") or {}
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        raise Wrong("* GenerateContentRequest.contents: contents is not specified")
    messages = [{"role": "system", "content": _text(body["systemInstruction"])}] if "systemInstruction" in body else []
    for content in contents:
        if content.get("role", "user") not in _ROLES:
            raise Wrong("Please use a valid role: user, model.")
        messages.append({"role": _ROLES[content.get("role", "user")], "content": _text(content)})
    chat: dict[str, Any] = {"model": name, "messages": messages}
    names = {"temperature": "temperature", "topP": "top_p", "seed": "seed", "stopSequences": "stop"}
    chat |= {there: config[here] for here, there in names.items() if here in config}
    if "maxOutputTokens" in config:
        chat["max_completion_tokens"] = config["maxOutputTokens"]
    if config.get("responseLogprobs"):
        chat["logprobs"] = True
    if config.get("thinkingConfig"):
        chat["reasoning"] = thinking_of(body)
    if "responseJsonSchema" in config:
        if config.get("responseMimeType") != "application/json":
            raise Wrong("response_json_schema needs response_mime_type application/json.")
        schema = {"name": "reply", "schema": config["responseJsonSchema"]}
        chat["response_format"] = {"type": "json_schema", "json_schema": schema}
    return chat


def thinking_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The thinking config, with names in one form: Google takes ``thinkingBudget`` and ``thinking_budget``."""
    config = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    return {name.replace("_", "").lower(): value for name, value in config.items()}


def _text(content: Mapping[str, Any]) -> str:
    parts = content.get("parts")
    if not isinstance(parts, list) or not all(isinstance(part.get("text"), str) for part in parts):
        raise Wrong("Unable to submit request because it must have a text parameter.")
    return "".join(part["text"] for part in parts)


def as_response(chat: Mapping[str, Any]) -> dict[str, Any]:
    """A chat completion as Google sends it; a refusal becomes a blocked prompt."""
    choice, usage = chat["choices"][0], chat["usage"]
    thought = usage["completion_tokens_details"]["reasoning_tokens"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    said = choice["message"]["content"]
    metadata: dict[str, Any] = {
        "promptTokenCount": usage["prompt_tokens"],
        "candidatesTokenCount": usage["completion_tokens"] - thought,
        "totalTokenCount": usage["total_tokens"],
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage["prompt_tokens"]}],
    }
    # Numbers of 0 are left out, as protocol buffers do it.
    metadata |= {"thoughtsTokenCount": thought} if thought else {}
    metadata |= {"cachedContentTokenCount": cached} if cached else {}
    body: dict[str, Any] = {
        "usageMetadata": metadata,
        "modelVersion": chat["model"],
        "responseId": uuid.uuid4().hex[:22],
    }
    if choice["message"]["refusal"]:
        return {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, **body}
    candidate: dict[str, Any] = {"finishReason": _FINISHED[choice["finish_reason"]], "index": 0}
    candidate["content"] = {"parts": [{"text": said}], "role": "model"} if said else {"role": "model"}
    if choice["logprobs"]:
        chosen = [{"token": e["token"], "logProbability": e["logprob"]} for e in choice["logprobs"]["content"]]
        candidate["logprobsResult"] = {"chosenCandidates": chosen}
    return {"candidates": [candidate], **body}


def pieces_of(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A response as the events of a stream: each repeats the usage, which grows, and the last one has the reason."""
    if "candidates" not in response:
        return [dict(response)]
    candidate = response["candidates"][0]
    common = {name: response[name] for name in ("modelVersion", "responseId")}
    whole, usage = candidate["content"].get("parts", [{"text": ""}])[0]["text"], response["usageMetadata"]
    texts = [whole[at : at + _PIECE] for at in range(0, len(whole), _PIECE)] or [""]
    events: list[dict[str, Any]] = []
    for number, text in enumerate(texts, 1):
        last = number == len(texts)
        told = dict(usage) if last else {**usage, "candidatesTokenCount": 0, "totalTokenCount": 0}
        part: dict[str, Any] = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}
        part |= {name: candidate[name] for name in ("finishReason", "logprobsResult") if last and name in candidate}
        events.append({"candidates": [part], "usageMetadata": told, **common})
    return events
