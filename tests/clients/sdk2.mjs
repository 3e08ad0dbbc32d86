// The second TypeScript SDK, @modelcontextprotocol/client: node sdk2.mjs VERSION URL, or VERSION COMMAND ARGUMENTS...
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { report, tryAll } from "./checks.mjs";

const [version, target, ...rest] = process.argv.slice(2);
const transport = target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args: rest, env: process.env, stderr: "ignore" });
const isEarlier = version < "2026";
const negotiation = isEarlier ? { supportedProtocolVersions: [version] } : { versionNegotiation: { mode: { pin: version } } };
const client = new Client({ name: "sdk2", version: "1" }, negotiation);
await client.connect(transport);
const found = await tryAll(client, version, { options: (options) => [options] });
const spoken = client.getNegotiatedProtocolVersion?.() ?? version;
report({ ...found, version: spoken === version ? "" : spoken });
