// The echo tool, served by the TypeScript SDK on Node's own HTTP server; the argument is the port.

import { createServer } from "node:http";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import * as z from "zod";

const handler = createMcpHandler(() => {
  const server = new McpServer({ name: "echo", version: "1.0" });
  server.registerTool(
    "echo",
    { description: "Return the text.", inputSchema: z.object({ text: z.string() }) },
    async ({ text }) => ({ content: [{ type: "text", text }] }),
  );
  return server;
});

createServer(toNodeHandler(handler)).listen(Number(process.argv[2]), "127.0.0.1");
