// An echo, a hash, a wait and a large result, served by the TypeScript SDK.

import { createHash } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";

const DATA = Buffer.alloc(1 << 20);
const ROW = "A line of a large result, which has sixty-four characters, yes.\n";
const said = (text) => ({ content: [{ type: "text", text }] });

serveStdio(() => {
  const server = new McpServer({ name: "work", version: "1.0" });
  server.registerTool(
    "echo",
    { description: "Return the text.", inputSchema: z.object({ text: z.string() }) },
    async ({ text }) => said(text),
  );
  server.registerTool(
    "digest",
    {
      description: "Keep the processor busy: hash a mebibyte.",
      inputSchema: z.object({}),
    },
    async () => said(createHash("sha256").update(DATA).digest("hex")),
  );
  server.registerTool(
    "wait",
    {
      description: "Wait, as for a database.",
      inputSchema: z.object({ milliseconds: z.int() }),
    },
    async ({ milliseconds }) => {
      await setTimeout(milliseconds);
      return said("done");
    },
  );
  server.registerTool(
    "rows",
    { description: "Return so many lines.", inputSchema: z.object({ count: z.int() }) },
    async ({ count }) => said(ROW.repeat(count)),
  );
  return server;
});
