// Tools that things go wrong in, served by the official TypeScript SDK.

import { spawnSync } from "node:child_process";
import { writeFileSync, writeSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { McpServer, ProtocolError } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";

const NOISE = "this is no message";
const said = (text) => ({ content: [{ type: "text", text: String(text) }] });
const fail = (error) => {
  throw error;
};
const refused = {};
let running = 0;
let most = 0;

// By name: the arguments, and the function.
const TOOLS = {
  wait: [{ seconds: z.number() }, async ({ seconds }) => said(await setTimeout(seconds * 1000, "done"))],
  wait_forever: [{}, () => new Promise(() => {})],
  wait_and_note: [
    { seconds: z.number(), file: z.string() },
    async ({ seconds, file }, context) => {
      let end = "was stopped";
      try {
        await setTimeout(seconds * 1000, null, { signal: context.mcpReq.signal });
        end = "ran to its end";
      } finally {
        writeFileSync(file, end);
      }
      return said(end);
    },
  ],
  count_those_that_run: [
    { seconds: z.number() },
    async ({ seconds }) => {
      most = Math.max(most, ++running);
      await setTimeout(seconds * 1000);
      running--;
      return said(most);
    },
  ],
  block: [
    { seconds: z.number() },
    async ({ seconds }) => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, seconds * 1000);
      return said("done");
    },
  ],
  print_noise: [{}, async () => (console.log(NOISE), said("done"))],
  have_a_child_print: [
    {},
    async () => (spawnSync("echo", [NOISE], { stdio: "inherit" }), said("done")),
  ],
  write_to_descriptor: [{}, async () => (writeSync(1, `${NOISE}\n`), said("done"))],
  large: [{ size: z.int() }, async ({ size }) => said("x".repeat(size))],
  crash: [{}, async () => fail(new Error("secret"))],
  double: [{ number: z.int() }, async ({ number }) => said(2 * number)],
  total: [{ of: z.array(z.int()) }, async ({ of }) => said(of.reduce((one, other) => one + other))],
  a_text: [{}, async () => said("text")],
  protocol_error: [{}, async () => fail(new ProtocolError(-32000, "Sold out."))],
  error_as_text: [{}, async () => said(new ProtocolError(-32000, "Sold out.").message)],
  registered: [{ name: z.string() }, async ({ name }) => said(refused[name] ?? "is registered")],
};

serveStdio(() => {
  const server = new McpServer({ name: "faults", version: "1.0" });
  for (const [name, [inputSchema, run]] of Object.entries(TOOLS)) {
    server.registerTool(name, { inputSchema: z.object(inputSchema) }, run);
  }
  for (const name of ["a_text", "crash"]) {
    try {
      server.registerTool("twice", { inputSchema: z.object({}) }, TOOLS[name][1]);
    } catch (error) {
      refused.twice = error.constructor.name;
    }
  }
  server.registerResource("stock", "shop://stock", {}, async (uri) => ({
    contents: [{ uri: uri.href, text: "3" }],
  }));
  return server;
});
