// Checks for every TypeScript SDK and transport. Prints one line of JSON: check -> "" or the failure.

import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const QUESTION = "which note wins when two devices edit";

function must(is, what) {
  if (!is) throw new Error(what);
}

export async function tryAll(client, version, era) {
  const found = {};
  const check = async (name, attempt) => {
    try {
      await attempt();
      found[name] = "";
    } catch (error) {
      found[name] = String(error.message ?? error).slice(0, 300);
    }
  };
  await check("tools/list", async () => {
    const { tools } = await client.listTools();
    must(tools.length === 6, `${tools.length} tools`);
    must(tools.every((tool) => tool.annotations.readOnlyHint && tool.annotations.idempotentHint), "annotations");
    must(tools.every((tool) => tool.title && tool.description && tool.outputSchema), "titles, descriptions and output schemas");
  });
  // The SDK validates structured content against the listed schema.
  await check("tools/call", async () => {
    const result = await client.callTool({ name: "query", arguments: { query: QUESTION } });
    must(!result.isError, "an error");
    must(result.content[0].text.includes("sync.md#Conflicts (lines "), "no citation");
    must(result.structuredContent.results[0].citation.startsWith("sync.md#Conflicts"), "no structured content");
  });
  for (const [name, arguments_] of [["read", { path: "sync.md" }], ["outline", {}], ["related", { path: "sync.md" }], ["status", {}]]) {
    await check(`tools/call ${name}`, async () => must(!(await client.callTool({ name, arguments: arguments_ })).isError, "an error"));
  }
  await check("a wrong call", async () => {
    const result = await client.callTool({ name: "query", arguments: { query: QUESTION, limt: 1 } });
    must(result.isError && result.content[0].text.includes("did you mean `limit`"), "no advice");
  });
  await check("resources", async () => {
    const { resources } = await client.listResources();
    const { contents } = await client.readResource({ uri: resources.at(-1).uri });
    must(resources.length === 3 && contents[0].text.includes("# Sync"), "a document");
    must((await client.listResourceTemplates()).resourceTemplates.length === 1, "the template");
  });
  await check("prompts", async () => {
    const { prompts } = await client.listPrompts();
    const { messages } = await client.getPrompt({ name: prompts[0].name, arguments: { question: "Who wins?" } });
    must(messages[0].content.text.includes("Who wins?"), "the question");
  });
  // Another process holds the index: a query that waits for an edit reports progress until it is cancelled.
  await check("progress and cancellation", async () => {
    const aborting = new AbortController();
    const told = [];
    const onprogress = (progress) => {
      told.push(progress);
      aborting.abort();
    };
    const note = join(process.env.NOTES, "not indexed.md");
    const asked = { name: "query", arguments: { query: QUESTION, wait_fresh: 20 } };
    writeFileSync(note, "# Not indexed\n");
    const timer = setTimeout(() => aborting.abort(), 10_000);
    const answer = await client.callTool(asked, ...era.options({ onprogress, signal: aborting.signal })).catch(() => undefined);
    clearTimeout(timer);
    rmSync(note);
    must(told.length > 0 && told[0].progress > 0 && told[0].message, `progress: ${JSON.stringify(told)}`);
    must(answer === undefined, "answered, though it was cancelled");
    must(!(await client.callTool({ name: "status", arguments: {} })).isError, "no answer afterwards");
  });
  for (const [name, attempt] of Object.entries(era.more ?? {})) await check(name, attempt);
  return found;
}

// Makes a transport's handshake use an earlier version than the client's latest.
export function speaking(transport, version) {
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if (message.method === "initialize") message.params.protocolVersion = version;
    return send(message, options);
  };
  return transport;
}

export function report(found) {
  console.log(JSON.stringify(found));
  process.exit(0);
}
