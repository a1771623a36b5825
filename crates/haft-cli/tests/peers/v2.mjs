// The TypeScript SDK of the second line against `haft serve`.
//
//     node v2.mjs MODULES stdio COMMAND...        node v2.mjs MODULES http URL TOKEN
//
// MODULES is the folder of the packages. Prints one JSON object with what it saw.
import { pathToFileURL } from "node:url";

const [modules, how, ...rest] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(`${modules}/@modelcontextprotocol/client/dist/${file}`));
const { Client, StreamableHTTPClientTransport } = await load("index.mjs");
const { StdioClientTransport } = await load("stdio.mjs");

const transport =
  how === "stdio"
    ? new StdioClientTransport({ command: rest[0], args: rest.slice(1) })
    : new StreamableHTTPClientTransport(new URL(rest[0]), {
        requestInit: { headers: { Authorization: `Bearer ${rest[1]}` } },
      });
const client = new Client({ name: "v2", version: "1" }, { capabilities: { elicitation: {} }, versionNegotiation: { mode: "auto" } });
const seen = { asked: 0 };
client.setRequestHandler("elicitation/create", async () => {
  seen.asked += 1;
  return { action: "accept", content: { decision: seen.asked === 1 ? "deny" : "allow once" } };
});
await client.connect(transport);
const text = (result) => result.content.map((block) => block.text ?? "").join("");
seen.revision = client.getNegotiatedProtocolVersion();
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
seen.read = text(await client.callTool({ name: "Read", arguments: { file_path: "notes.txt" } }));
const write = { name: "Write", arguments: { file_path: "new.txt", content: "words\n" } };
seen.denied = (await client.callTool(write)).isError === true;
seen.allowed = (await client.callTool(write)).isError !== true;
const large = await client.callTool({ name: "Bash", arguments: { command: "seq 1 100000" } });
const link = large.content.find((block) => block.type === "resource_link");
seen.lines = (await client.readResource({ uri: link.uri })).contents[0].text.split("\n").length - 1;
const controller = new AbortController();
const sleeping = client.callTool({ name: "Bash", arguments: { command: "sleep 1000" } }, { signal: controller.signal });
controller.abort("enough");
seen.aborted = await sleeping.then(() => false, () => true);
await client.close();
console.log(JSON.stringify(seen));
