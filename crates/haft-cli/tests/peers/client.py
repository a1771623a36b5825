"""The PyPI client `mcp` against `haft serve`.

    client.py MODE URL TOKEN COMMAND...

MODE is `legacy` (with a handshake) or a revision without one. Does the same over standard input and output with the server
that COMMAND starts, and over HTTP with the one at URL. Prints one JSON object with what it saw over each.
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

def text(result):
    return "".join(getattr(block, "text", "") for block in result.content)


async def visit(server, mode):
    seen = {"asked": []}
    answers = []

    async def elicit(_context, params):
        seen["asked"].append(params.message)
        decision, reason = answers.pop(0)
        if decision is None:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"decision": decision, "reason": reason})

    async with Client(server, mode=mode, elicitation_callback=elicit) as client:
        seen["revision"] = client.protocol_version
        seen["server"] = client.server_info.name if client.server_info else None
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        seen["tools"] = sorted(tools)
        seen["read_only"] = tools["Read"].annotations.read_only_hint
        seen["read"] = text(await client.call_tool("Read", {"file_path": "notes.txt"}))
        wrong = await client.call_tool("Read", {"file_path": 7})
        seen["invalid"] = [wrong.is_error, text(wrong)]
        answers[:] = [("deny", "not today"), ("allow once", ""), (None, "")]
        write = {"file_path": "new.txt", "content": "words\n"}
        denied = await client.call_tool("Write", write)
        seen["denied"] = [denied.is_error, text(denied)]
        allowed = await client.call_tool("Write", write)
        seen["allowed"] = [bool(allowed.is_error), text(allowed)]
        declined = await client.call_tool("Bash", {"command": "rm new.txt"})
        seen["declined"] = [declined.is_error, text(declined)]
        heard = []

        async def progress(progress, total, message):
            heard.append([progress, total, message])

        far = await client.call_tool("far", {}, progress_callback=progress)
        seen["far"] = [text(far), heard]
        large = await client.call_tool("Bash", {"command": "seq 1 100000"})
        link = next(block for block in large.content if block.type == "resource_link")
        contents = (await client.read_resource(link.uri)).contents
        seen["large"] = [len(text(large)), contents[0].text.count("\n")]
        try:
            await client.call_tool("Nope", {})
        except Exception as error:
            seen["unknown"] = str(error)
    return seen


async def main():
    mode, url, token, command, *args = sys.argv[1:]
    over_stdio = await visit(StdioServerParameters(command=command, args=args), mode)
    http_client = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60)
    over_http = await visit(streamable_http_client(url, http_client=http_client), mode)
    print(json.dumps({"stdio": over_stdio, "http": over_http}))


asyncio.run(asyncio.wait_for(main(), 120))
