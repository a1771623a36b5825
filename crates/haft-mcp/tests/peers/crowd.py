"""Many clients for Python at once: crowd.py URL TOKEN COUNT. Each lists tools, makes a call, and stays until all are served or
refused. Prints how many were served, and how many got which error."""
import asyncio
import collections
import json
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def run(url, token, settled, all_settled):
    headers = {"Authorization": f"Bearer {token}"}
    try:
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            async with Client(streamable_http_client(url, http_client=http), mode="legacy") as client:
                await client.list_tools()
                result = await client.call_tool("echo", {"text": "hi"})
                settled.release()
                await all_settled.wait()
                return result.content[0].text == "hi" and "served"
    except BaseException as error:
        settled.release()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return str(error)


async def main(url, token, count):
    settled, all_settled = asyncio.Semaphore(0), asyncio.Event()
    clients = [asyncio.create_task(run(url, token, settled, all_settled)) for _ in range(count)]
    for _ in clients:
        await settled.acquire()
    all_settled.set()
    print(json.dumps(collections.Counter(await asyncio.gather(*clients))))


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
