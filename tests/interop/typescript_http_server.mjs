// A server made with the TypeScript SDK, over HTTP, in both protocol eras; prints its port.

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const packages = createRequire(`${process.cwd()}/`);
const load = (name) => import(pathToFileURL(packages.resolve(name)).href);
const { toNodeHandler } = await load("@modelcontextprotocol/node");
const { createMcpHandler, McpServer } = await load("@modelcontextprotocol/server");
const z = await load("zod");

const handler = createMcpHandler(() => {
  const server = new McpServer({ name: "typescript", version: "1.0" });
  server.registerTool(
    "shout",
    { description: "Say it louder.", inputSchema: z.object({ words: z.string() }) },
    async ({ words }) => ({ content: [{ type: "text", text: words.toUpperCase() }] }),
  );
  server.registerResource("note", "note://one", {}, async (uri) => ({
    contents: [{ uri: uri.href, text: "remember" }],
  }));
  server.registerPrompt("greet", { argsSchema: z.object({ name: z.string() }) }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Hello, ${name}!` } }],
  }));
  return server;
});

const http = createServer(toNodeHandler(handler));
http.listen(0, "127.0.0.1", () => console.log(http.address().port));
process.stdin.resume().on("end", () => process.exit());
