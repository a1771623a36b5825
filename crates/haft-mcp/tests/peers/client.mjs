// The protocol's own client for TypeScript against the fixture: client.mjs MODULES URL|PROGRAM, where
// the address may be a WebSocket's. Prints what it saw as one JSON
// object.
import { createRequire } from "node:module";

const [modules, where] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { WebSocketClientTransport } = require("@modelcontextprotocol/sdk/client/websocket.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { ElicitRequestSchema, ToolListChangedNotificationSchema } = require("@modelcontextprotocol/sdk/types.js");

const client = new Client({ name: "ts", version: "1" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, async () => ({ action: "accept", content: { name: "Ada" } }));
const changed = new Promise((done) => client.setNotificationHandler(ToolListChangedNotificationSchema, done));
const transports = {
  http: () => new StreamableHTTPClientTransport(new URL(where)),
  ws: () => new WebSocketClientTransport(new URL(where)),
};
const over = transports[where.split(":")[0]];
const transport = over ? over() : new StdioClientTransport({ command: where, args: ["--stdio"] });
await client.connect(transport);
const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
const tools = (await client.listTools()).tools;
const echo = await call("test_echo", { text: "grüße" });
const wrong = await call("test_error_handling", {});
const asked = await call("test_input_required_result_elicitation", {});
// The client forgets progress that it reads together with the answer, so what the server has sent is heard before it.
const progress = [];
const handle = transport.onmessage;
transport.onmessage = (message, extra) => {
  if (message.method === "notifications/progress") progress.push(message.params.progress);
  handle(message, extra);
};
let told = 0;
for (let attempt = 0; told === 0 && attempt < 50; attempt += 1) {
  progress.length = 0;
  await call("test_tool_with_progress", {}, { onprogress: () => (told += 1) });
}
const together = await Promise.all([...Array(16).keys()].map((n) => call("test_echo", { text: String(n) })));
const text = (await client.readResource({ uri: "test://static-text" })).contents[0].text;
const prompt = await client.getPrompt({ name: "test_prompt_with_arguments", arguments: { arg1: "a", arg2: "b" } });
await call("test_trigger_tool_change", {});
await changed;
console.log(JSON.stringify({
  revision: "2025-11-25",
  tools: tools.length,
  echo: echo.structuredContent,
  wrong: wrong.isError,
  asked: asked.content[0].text,
  progress: told > 0 ? progress.slice(0, 2) : "the client was told of none",
  together: together.map((answer) => answer.content[0].text),
  text,
  prompt: prompt.messages[0].content.text,
}));
await client.close();
