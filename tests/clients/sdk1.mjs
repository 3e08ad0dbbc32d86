// The TypeScript SDK, @modelcontextprotocol/sdk: node sdk1.mjs VERSION URL, or VERSION COMMAND ARGUMENTS...
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { report, speaking, tryAll } from "./checks.mjs";

const [version, target, ...rest] = process.argv.slice(2);
const transport = target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args: rest, env: process.env, stderr: "ignore" });
const client = new Client({ name: "sdk1", version: "1" }, { capabilities: { roots: {} } });
client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [] }));
await client.connect(speaking(transport, version));
const uri = "thumbindex://vault/sync.md";
report(
  await tryAll(client, version, {
    options: (options) => [undefined, options],
    more: {
      "resources/subscribe": async () => {
        await client.subscribeResource({ uri });
        await client.unsubscribeResource({ uri });
      },
      ping: () => client.ping(),
    },
  }),
);
