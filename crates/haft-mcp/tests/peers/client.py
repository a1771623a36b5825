"""The protocol's own client for Python against the fixture: client.py (URL|PROGRAM MODE)… Prints what it saw as one JSON
object a line, one for each pair: importing the client costs more than using it."""
import asyncio
import json
import sys

from mcp import Client, StdioServerParameters, types


async def main(where, mode):
    server = where if where.startswith("http") else StdioServerParameters(command=where, args=["--stdio"])

    async def elicit(context, params):
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    far = []

    async def progress(done, total, message):
        far.append(int(done))

    async with Client(server, mode=mode, elicitation_callback=elicit) as client:
        tools = (await client.list_tools()).tools
        echo = await client.call_tool("test_echo", {"text": "grüße"})
        wrong = await client.call_tool("test_echo", {})
        asked = await client.call_tool("test_input_required_result_elicitation", {})
        await client.call_tool("test_tool_with_progress", {}, progress_callback=progress)
        together = await asyncio.gather(*[client.call_tool("test_echo", {"text": str(n)}) for n in range(16)])
        text = (await client.read_resource("test://static-text")).contents[0].text
        prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
        print(json.dumps({
            "revision": client.protocol_version,
            "tools": len(tools),
            "echo": echo.structured_content,
            "wrong": wrong.is_error,
            "asked": asked.content[0].text,
            "progress": far[:2],
            "together": [answer.content[0].text for answer in together],
            "text": text,
            "prompt": prompt.messages[0].content.text,
        }))


for where, mode in zip(sys.argv[1::2], sys.argv[2::2]):
    asyncio.run(main(where, mode))
