"""Messages made with each provider's own types go through `haft dispatch`; the answers are held against its types."""
import json, subprocess
from pydantic import TypeAdapter
import anthropic.types, openai.types.chat, openai.types.responses
from google.genai import types as gemini

READ = {"file_path": "notes.txt"}
LINES = "1\tone\n2\ttwo\n3\tthree"


def dispatch(message: str, *flags: str):
    ran = subprocess.run(["haft", "dispatch", *flags], input=message, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout)


def strict(kind, value):
    """Validates, and finds keys that the type doesn't know: dumping what was understood gives the same again."""
    adapter = TypeAdapter(kind)
    assert adapter.dump_python(adapter.validate_python(value), mode="json", exclude_unset=True) == value, value


# Anthropic: the whole message, and its content alone.
message = anthropic.types.Message(
    id="msg_1", type="message", role="assistant", model="m", stop_reason="tool_use",
    usage=anthropic.types.Usage(input_tokens=1, output_tokens=1),
    content=[
        anthropic.types.TextBlock(type="text", text="I'll look."),
        anthropic.types.ToolUseBlock(type="tool_use", id="toolu_1", name="Read", input=READ),
        anthropic.types.ToolUseBlock(type="tool_use", id="toolu_2", name="Read", input={"file": 1}),
    ],
)
for text in [message.to_json(), message.model_dump_json(), json.dumps(message.model_dump()["content"])]:
    answer = dispatch(text)
    assert answer["role"] == "user" and sorted(answer) == ["content", "role"]
    for block in answer["content"]:
        strict(anthropic.types.ToolResultBlockParam, block)
    done, failed = answer["content"]
    assert (done["tool_use_id"], done["content"]) == ("toolu_1", LINES), done
    assert failed["tool_use_id"] == "toolu_2" and failed["is_error"] is True, failed
print("anthropic ok")

# OpenAI Responses: the whole response, and its output alone.
output = [
    openai.types.responses.ResponseReasoningItem(id="rs_1", summary=[], type="reasoning"),
    openai.types.responses.ResponseFunctionToolCall(
        type="function_call", id="fc_1", call_id="call_1", name="Read",
        arguments=json.dumps({**READ, "limit": None, "offset": None}), status="completed"),
    openai.types.responses.ResponseFunctionToolCall(
        type="function_call", id="fc_2", call_id="call_2", name="Read", arguments='{"file_path": ', status="completed"),
]
response = openai.types.responses.Response.model_construct(
    id="resp_1", object="response", created_at=1.0, model="m", output=output, parallel_tool_calls=True, tool_choice="auto", tools=[])
for text in [response.to_json(), response.model_dump_json(), json.dumps([item.model_dump() for item in output])]:
    answer = dispatch(text)
    for item in answer:
        strict(openai.types.responses.response_input_item_param.FunctionCallOutput, item)
    done, failed = answer
    assert (done["type"], done["call_id"], done["output"]) == ("function_call_output", "call_1", LINES), done
    assert failed["call_id"] == "call_2" and "JSON" in failed["output"], failed
print("openai ok")

# OpenAI Chat: the message.
message = openai.types.chat.ChatCompletionMessage(
    role="assistant", content=None,
    tool_calls=[openai.types.chat.ChatCompletionMessageFunctionToolCall(
        id="call_1", type="function", function={"name": "Read", "arguments": json.dumps(READ)})],
)
for text in [message.to_json(), message.model_dump_json()]:
    (answer,) = dispatch(text)
    strict(openai.types.chat.ChatCompletionToolMessageParam, answer)
    assert answer == {"role": "tool", "tool_call_id": "call_1", "content": LINES}, answer
print("openai-chat ok")

# Gemini: the content, as it is on the wire and as the SDK spells it.
content = gemini.Content(role="model", parts=[
    gemini.Part(text="I'll look."),
    gemini.Part(function_call=gemini.FunctionCall(name="Read", args=READ)),
    gemini.Part(function_call=gemini.FunctionCall(id="f2", name="Raed", args={})),
])
for text in [content.model_dump_json(by_alias=True, exclude_none=True), content.model_dump_json()]:
    answer = dispatch(text)
    assert gemini.Content.model_validate(answer).model_dump(mode="json", by_alias=True, exclude_unset=True) == answer
    done, failed = (part["functionResponse"] for part in answer["parts"])
    assert done == {"name": "Read", "response": {"output": LINES}}, done
    assert failed["id"] == "f2" and failed["name"] == "Raed" and "error" in failed["response"], failed
print("gemini ok")
