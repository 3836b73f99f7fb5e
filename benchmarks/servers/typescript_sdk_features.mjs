// A resource, a prompt, progress and updates, served by the TypeScript SDK.

import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";

const TEXT = "thirty-two characters of a text.";
const URI = "bench://text";
const said = (text) => ({ content: [{ type: "text", text }] });

serveStdio(() => {
  const server = new McpServer(
    { name: "features", version: "1.0" },
    { capabilities: { resources: { subscribe: true } } },
  );
  server.registerResource("text", URI, { mimeType: "text/plain" }, async () => ({
    contents: [{ uri: URI, text: TEXT, mimeType: "text/plain" }],
  }));
  server.registerPrompt(
    "say",
    { description: "Say the text.", argsSchema: z.object({ text: z.string() }) },
    async ({ text }) => ({ messages: [{ role: "user", content: { type: "text", text } }] }),
  );
  server.registerTool(
    "steps",
    { description: "Report progress so many times.", inputSchema: z.object({ count: z.int() }) },
    async ({ count }, context) => {
      const progressToken = context.mcpReq._meta?.progressToken;
      for (let progress = 1; progress <= count; progress++) {
        const params = { progressToken, progress, total: count };
        await context.mcpReq.notify({ method: "notifications/progress", params });
      }
      return said(TEXT);
    },
  );
  server.registerTool(
    "update",
    { description: "Say that the resource has changed.", inputSchema: z.object({}) },
    async () => {
      await server.server.sendResourceUpdated({ uri: URI });
      return said(TEXT);
    },
  );
  return server;
});
