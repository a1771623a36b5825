"""A task for a model, with haft's tools: python anthropic_turn.py "How many lines has Cargo.toml?"

haft says which tools there are, judges and runs the calls, and answers each of them. Needs `pip install anthropic`,
ANTHROPIC_API_KEY, and haft on the PATH.
"""
import json, subprocess, sys
import anthropic

def haft(*command: str, given: str = ""):
    return json.loads(subprocess.run(["haft", *command], input=given, stdout=subprocess.PIPE, text=True, check=True).stdout)

client = anthropic.Anthropic()
tools = haft("tools", "--format", "anthropic")
messages = [{"role": "user", "content": sys.argv[1]}]
while True:
    reply = client.messages.create(model="claude-sonnet-4-20250514", max_tokens=4096, tools=tools, messages=messages)
    messages.append({"role": "assistant", "content": reply.content})
    if reply.stop_reason != "tool_use":
        break
    messages.append(haft("dispatch", given=reply.to_json()))
print("".join(block.text for block in reply.content if block.type == "text"))
