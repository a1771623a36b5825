"""The PyPI client `mcp` against `haft serve`.

    client.py stdio MODE COMMAND...        client.py http MODE URL TOKEN

MODE is `legacy` (with a handshake) or a revision without one. Prints one JSON object with what it saw.
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

seen = {"asked": []}
answers = []


async def elicit(_context, params):
    seen["asked"].append(params.message)
    decision, reason = answers.pop(0)
    if decision is None:
        return ElicitResult(action="decline")
    return ElicitResult(action="accept", content={"decision": decision, "reason": reason})


def text(result):
    return "".join(getattr(block, "text", "") for block in result.content)


async def main():
    how, mode, *rest = sys.argv[1:]
    if how == "stdio":
        server = StdioServerParameters(command=rest[0], args=rest[1:])
    else:
        headers = {"Authorization": f"Bearer {rest[1]}"}
        server = streamable_http_client(rest[0], http_client=httpx2.AsyncClient(headers=headers, timeout=60))
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
    print(json.dumps(seen))


asyncio.run(asyncio.wait_for(main(), 60))
