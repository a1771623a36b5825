"""What this crate sends and says, held against the real SDKs: their types, and their clients at the scripted server.

The test writes one JSON object to stdin: the server's base URLs, requests by wire, and recorded streams with what was
made of them.
"""
import collections.abc, functools, json, os, sys, types, typing
import anthropic, anthropic.types, anthropic.types.beta, httpx2, openai, openai.types.chat, openai.types.responses
from google import genai
from google.genai import types as gemini
from pydantic import BaseModel, TypeAdapter
from typing_extensions import NotRequired, Required, TypedDict, get_type_hints, is_typeddict

given = json.load(sys.stdin)
ECHO = {"type": "object", "properties": {"n": {"type": "integer"}}}
# Fields that the script's wires have beside what the SDK knows, on purpose: what local servers say of their thinking.
KNOWN_EXTRA = {"reasoning_content"}


def plain(value):
    """Without what is not said: SDKs fill in nulls."""
    match value:
        case dict():
            return {key: plain(inner) for key, inner in value.items() if inner is not None}
        case list():
            return [plain(inner) for inner in value]
        case _:
            return value


made, being_made = {}, set()


def lists(kind):
    """A type of a request with lists for what SDKs call iterable: pydantic reads those lazily, once, and unchecked."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is collections.abc.Iterable or origin is list:
        return list[lists(inside[0])]
    if origin in (typing.Union, types.UnionType):
        return typing.Union[tuple(lists(one) for one in inside)]
    if origin in (typing.Annotated, Required, NotRequired):
        return lists(inside[0])
    if origin is typing.IO or origin is os.PathLike:
        return None  # an SDK's convenience; nothing that is JSON
    if not is_typeddict(kind):
        return kind
    if kind in being_made:
        return dict
    if kind not in made:
        being_made.add(kind)
        fields = {name: lists(inner) for name, inner in get_type_hints(kind, include_extras=True).items()}
        wrap = lambda name: Required if name in kind.__required_keys__ else NotRequired
        made[kind] = TypedDict(kind.__name__, {name: wrap(name)[inner] for name, inner in fields.items()})
        made[kind].__pydantic_config__ = {"extra": "forbid"}
        being_made.remove(kind)
    return made[kind]


@functools.cache
def adapter_for(kind):
    """One validator for each type: building one takes long."""
    return TypeAdapter(lists(kind))


def strict(kind, value, what):
    """Validates, and finds keys that the type doesn't know: dumping what was understood gives the same again."""
    adapter = adapter_for(kind)
    dumped = adapter.dump_python(adapter.validate_python(value), mode="json", exclude_unset=True, by_alias=True)
    assert plain(dumped) == plain(value), f"{what}\nsent {json.dumps(value)[:1500]}\nread {json.dumps(dumped)[:1500]}"


def whole(model: BaseModel):
    """Everything that the type requires is there, and nothing that it doesn't know. SDKs check neither by themselves."""
    type(model).model_validate(model.model_dump(mode="json", by_alias=True, warnings=False))

    def look(value):
        if isinstance(value, BaseModel):
            extra = set(value.model_extra or {}) - KNOWN_EXTRA
            # What an SDK's own accumulator adds is its own.
            assert not extra - {"parsed", "parsed_arguments"}, f"{type(value).__name__} doesn't know {extra}"
            for name in type(value).model_fields:
                look(getattr(value, name, None))
        elif isinstance(value, list):
            for inner in value:
                look(inner)

    look(model)
    return model


# Requests, against the types that each SDK has for them.
for body in given["requests"]["anthropic"]:
    for message in body["messages"]:
        strict(anthropic.types.MessageParam, message, "anthropic message")
    for tool in body["tools"]:
        strict(anthropic.types.ToolParam, tool, "anthropic tool")
    for block in body["system"]:
        strict(anthropic.types.TextBlockParam, block, "anthropic system")
    rest = {key: value for key, value in body.items() if key not in ("messages", "tools", "system")}
    kind = anthropic.types.message_create_params
    kind = kind.MessageCreateParamsStreaming if body.get("stream") else kind.MessageCreateParamsNonStreaming
    strict(kind, {**rest, "messages": []}, "anthropic request")
for body in given["requests"]["openai"]:
    for item in body["input"]:
        strict(openai.types.responses.ResponseInputItemParam, item, "openai item")
    for tool in body["tools"]:
        strict(openai.types.responses.FunctionToolParam, tool, "openai tool")
    rest = {key: value for key, value in body.items() if key not in ("input", "tools")}
    kind = openai.types.responses.response_create_params
    kind = kind.ResponseCreateParamsStreaming if body.get("stream") else kind.ResponseCreateParamsNonStreaming
    strict(kind, rest, "openai request")
for body in given["requests"]["openai-chat"]:
    for message in body["messages"]:
        strict(openai.types.chat.ChatCompletionMessageParam, message, "chat message")
    for tool in body["tools"]:
        strict(openai.types.chat.ChatCompletionFunctionToolParam, tool, "chat tool")
    rest = {key: value for key, value in body.items() if key not in ("messages", "tools")}
    kind = openai.types.chat.completion_create_params
    kind = kind.CompletionCreateParamsStreaming if body.get("stream") else kind.CompletionCreateParamsNonStreaming
    strict(kind, {**rest, "messages": []}, "chat request")
for body in given["requests"]["gemini"]:
    for content in body["contents"] + [body["systemInstruction"]]:
        strict(gemini.Content, content, "gemini content")
    for tool in body["tools"]:
        strict(gemini.Tool, tool, "gemini tool")
    strict(gemini.GenerationConfig, body.get("generationConfig", {}), "gemini configuration")
    known = {"contents", "tools", "systemInstruction", "generationConfig"}
    assert set(body) <= known, set(body) - known
print("requests ok", sum(len(bodies) for bodies in given["requests"].values()))

# Requests with deferred tools: marked ones and references, a search of the client's and what it found.
seen = set()
for body in given["deferring"]["anthropic"]:
    for message in body["messages"]:
        strict(anthropic.types.MessageParam, message, "anthropic message")
        for block in message["content"] if isinstance(message["content"], list) else []:
            for inner in block["content"] if isinstance(block.get("content"), list) else []:
                strict(anthropic.types.ToolReferenceBlockParam, inner, "anthropic reference")
                seen.add(inner["type"])
    for tool in body["tools"]:
        strict(anthropic.types.ToolParam, tool, "anthropic tool")
        seen.add("defer_loading") if tool.get("defer_loading") is True else None
for body in given["deferring"]["openai"]:
    for item in body["input"]:
        strict(openai.types.responses.ResponseInputItemParam, item, "openai item")
        seen.add(item["type"])
        if item["type"] == "tool_search_output":
            kind = openai.types.responses.response_tool_search_output_item_param_param
            strict(kind.ResponseToolSearchOutputItemParamParam, item, "openai output of a search")
            for tool in item["tools"]:
                strict(openai.types.responses.FunctionToolParam, tool, "openai tool that was found")
                assert tool["defer_loading"] is True, tool
    assert [tool["type"] for tool in body["tools"]] == ["tool_search"], body["tools"]
    strict(openai.types.responses.ToolSearchToolParam, body["tools"][0], "openai search")
wanted = {"tool_reference", "defer_loading", "tool_search_call", "tool_search_output"}
assert wanted <= seen, wanted - seen
print("deferred tools ok", sum(len(bodies) for bodies in given["deferring"].values()))

# What is left of messages that were cut off, with the answers to their calls.
kinds = {
    "anthropic": anthropic.types.MessageParam, "openai": openai.types.responses.ResponseInputItemParam,
    "openai-chat": openai.types.chat.ChatCompletionMessageParam, "gemini": gemini.Content,
}
for wire, histories in given["histories"].items():
    for history in histories:
        for item in history:
            # The thinking of local servers goes back to them, beside what the SDK knows.
            item.pop("reasoning_content", None)
            strict(kinds[wire], item, f"{wire} history")
print("histories ok", sum(len(histories) for histories in given["histories"].values()))

# Recorded streams: what the SDK puts together is what goes back, and it fits the types of a request.
compared = 0
for recorded in given["streams"]:
    data, items, name = recorded["data"].encode(), recorded["items"], recorded["name"]
    answer = lambda request: httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=data)
    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    if recorded["wire"] == "anthropic":
        client = anthropic.Anthropic(api_key="k", http_client=http, max_retries=0)
        ask = dict(model="m", max_tokens=1, messages=[{"role": "user", "content": "go"}])
        with client.beta.messages.stream(**ask) as stream:
            final = stream.get_final_message()
        told = plain(json.loads(final.to_json(exclude_none=True)))["content"]
        kept = plain(items[0]["content"]) if items else []
        # What can't be sent back is left out: text without anything in it, thinking that nothing follows.
        told = [block for block in told if block["type"] != "text" or block["text"].strip()]
        for block in told + kept:
            block.pop("citations", None) if not block.get("citations") else None
            block.pop("parsed_output", None)
        assert told[: len(kept)] == kept, f"{name}\ntold {json.dumps(told)[:3000]}\nkept {json.dumps(kept)[:3000]}"
        assert len(told) == len(kept) or told[len(kept)]["type"] in ("thinking", "server_tool_use"), name
    elif recorded["wire"] == "openai-chat":
        client = openai.OpenAI(api_key="k", http_client=http, max_retries=0)
        with client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "go"}]) as stream:
            told = stream.get_final_completion().choices[0].message
        assert told.content == items[0]["content"], name
    else:
        client = openai.OpenAI(api_key="k", http_client=http, max_retries=0)
        told = []
        for event in client.responses.create(model="m", input="go", stream=True):
            if event.type == "response.output_item.done":
                told.append(plain(json.loads(event.item.to_json(exclude_none=True))))
        kept = plain(items)
        assert [item for item in told if item in kept] == kept, f"{name}\ntold {json.dumps(told)[:2000]}\nkept {json.dumps(kept)[:2000]}"
    compared += 1
print("streams ok", compared)


def echo(arguments):
    return json.dumps(arguments, sort_keys=True)


# The clients, at the scripted server: a turn with thinking, text and two calls, then the answer; streamed and not.
def by_anthropic(stream):
    client = anthropic.Anthropic(api_key="k", base_url=given["urls"]["anthropic"], max_retries=3)
    messages = [{"role": "user", "content": "go"}]
    tools = [{"name": "echo", "input_schema": ECHO}]
    while True:
        ask = dict(model="m", max_tokens=99, messages=messages, tools=tools)
        if stream:
            with client.messages.stream(**ask) as events:
                for event in events:
                    whole(event)
                message = events.get_final_message()
        else:
            message = client.messages.create(**ask)
        whole(message)
        messages.append({"role": "assistant", "content": message.content})
        if message.stop_reason == "end_turn":
            return message.content[0].text
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
        calls = [block for block in message.content if block.type == "tool_use"]
        answers = [{"type": "tool_result", "tool_use_id": call.id, "content": echo(call.input)} for call in calls]
        messages.append({"role": "user", "content": answers})


def by_openai(stream):
    client = openai.OpenAI(api_key="k", base_url=given["urls"]["openai"], max_retries=3)
    items = [{"role": "user", "content": "go"}]
    tools = [{"type": "function", "name": "echo", "parameters": ECHO, "strict": False}]
    while True:
        ask = dict(model="m", input=items, tools=tools, store=False)
        if stream:
            with client.responses.stream(**ask) as events:
                for event in events:
                    if not event.type.startswith("response.output_text."):
                        whole(event)
                response = events.get_final_response()
        else:
            response = whole(client.responses.create(**ask))
        items += [item.to_dict() for item in response.output]
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return response.output_text
        assert [item.type for item in response.output] == ["reasoning", "message", "function_call", "function_call"]
        for call in calls:
            output = echo(json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})


def by_chat(stream):
    client = openai.OpenAI(api_key="k", base_url=given["urls"]["openai"], max_retries=3)
    messages = [{"role": "user", "content": "go"}]
    tools = [{"type": "function", "function": {"name": "echo", "parameters": ECHO}}]
    while True:
        ask = dict(model="m", messages=messages, tools=tools)
        if stream:
            with client.chat.completions.stream(**ask, stream_options={"include_usage": True}) as events:
                for event in events:
                    if event.type == "chunk":
                        whole(event.chunk)
                completion = events.get_final_completion()
            assert completion.usage.total_tokens > 0
        else:
            completion = whole(client.chat.completions.create(**ask))
        message = completion.choices[0].message
        messages.append(message.to_dict())
        if not message.tool_calls:
            return message.content
        assert len(message.tool_calls) == 2 and message.content == "I look."
        for call in message.tool_calls:
            output = echo(json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": output})


def by_gemini(stream):
    options = gemini.HttpOptions(base_url=given["urls"]["gemini"], retry_options=gemini.HttpRetryOptions(attempts=3, initial_delay=0.01))
    client = genai.Client(api_key="k", http_options=options)
    contents = [gemini.Content(role="user", parts=[gemini.Part(text="go")])]
    tool = gemini.Tool(function_declarations=[gemini.FunctionDeclaration(name="echo", parameters_json_schema=ECHO)])
    config = gemini.GenerateContentConfig(tools=[tool], automatic_function_calling=gemini.AutomaticFunctionCallingConfig(disable=True))
    while True:
        ask = dict(model="m", contents=contents, config=config)
        if stream:
            parts = [part for chunk in client.models.generate_content_stream(**ask) for part in chunk.parts or []]
        else:
            parts = client.models.generate_content(**ask).parts
        contents.append(gemini.Content(role="model", parts=parts))
        calls = [part.function_call for part in parts if part.function_call]
        if not calls:
            return "".join(part.text for part in parts)
        assert len(calls) == 2 and "".join(part.text for part in parts if part.text and not part.thought) == "I look."
        answers = [gemini.Part.from_function_response(name=call.name, response={"output": echo(call.args)}) for call in calls]
        for call, part in zip(calls, answers):
            part.function_response.id = call.id
        contents.append(gemini.Content(role="user", parts=answers))


for client in [by_anthropic, by_openai, by_chat, by_gemini]:
    for stream in [False, True]:
        assert client(stream) == "All done.", client.__name__
    print(client.__name__, "ok")

# Searches: the SDK reads the call in its provider's own form, and what it sends back is taken.
def search_by_anthropic(stream):
    client = anthropic.Anthropic(api_key="k", base_url=given["searches"]["anthropic"])
    messages = [{"role": "user", "content": "go"}]
    query = {"type": "object", "properties": {"query": {"type": "string"}}}
    tools = [{"name": "ToolSearch", "input_schema": query}, {"name": "echo", "input_schema": ECHO, "defer_loading": True}]
    while True:
        ask = dict(model="m", max_tokens=99, messages=messages, tools=tools)
        if stream:
            with client.messages.stream(**ask) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(**ask)
        whole(message)
        messages.append({"role": "assistant", "content": message.content})
        if message.stop_reason == "end_turn":
            return message.content[0].text
        [call] = message.content
        found = [{"type": "tool_reference", "tool_name": "echo"}]
        content = found if call.name == "ToolSearch" else echo(call.input)
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": content}]})


def search_by_openai(stream):
    client = openai.OpenAI(api_key="k", base_url=given["searches"]["openai"])
    items = [{"role": "user", "content": "go"}]
    query = {"type": "object", "properties": {"query": {"type": "string"}}}
    tools = [{"type": "tool_search", "execution": "client", "description": "Finds.", "parameters": query}]
    while True:
        ask = dict(model="m", input=items, tools=tools, store=False)
        if stream:
            with client.responses.stream(**ask) as events:
                for event in events:
                    if not event.type.startswith("response.output_text."):
                        whole(event)
                response = events.get_final_response()
        else:
            response = whole(client.responses.create(**ask))
        items += [item.to_dict() for item in response.output]
        [item] = response.output
        match item.type:
            case "tool_search_call":
                assert (item.execution, item.arguments) == ("client", {"query": "echo"}), item
                found = [{"type": "function", "name": "echo", "parameters": ECHO, "strict": False, "defer_loading": True}]
                answer = {"type": "tool_search_output", "call_id": item.call_id, "execution": "client", "status": "completed", "tools": found}
            case "function_call":
                answer = {"type": "function_call_output", "call_id": item.call_id, "output": echo(json.loads(item.arguments))}
            case _:
                return response.output_text
        items.append(answer)


for client in [search_by_anthropic, search_by_openai]:
    for stream in [False, True]:
        assert client(stream) == "All done.", client.__name__
    print(client.__name__, "ok")

# What is refused arrives as each SDK's own error, with the words.
try:
    anthropic.Anthropic(api_key="k", base_url=given["refusing"]).messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "go"}])
    raise AssertionError("nothing was refused")
except anthropic.AuthenticationError as error:
    assert error.body["error"]["message"] == "no such key", error.body
for ask in [lambda api: api.responses.create(model="m", input="go"), lambda api: api.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}])]:
    try:
        ask(openai.OpenAI(api_key="k", base_url=given["refusing"] + "/v1"))
        raise AssertionError("nothing was refused")
    except openai.AuthenticationError as error:
        assert error.body["message"] == "no such key", error.body
try:
    client = genai.Client(api_key="k", http_options=gemini.HttpOptions(base_url=given["refusing"]))
    client.models.generate_content(model="m", contents="go")
    raise AssertionError("nothing was refused")
except genai.errors.ClientError as error:
    assert (error.code, error.message) == (401, "no such key"), error
print("errors ok")
