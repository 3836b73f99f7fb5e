// The official TypeScript client, and a server that does wrong. Arguments: the command of the server.

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "faults", version: "1.0" });
await client.connect(new StdioClientTransport({ command, args, stderr: "ignore" }));
const begun = performance.now();
let became = "the result";
try {
  await client.callTool({ name: "work", arguments: {} });
} catch {
  became = "an error";
}
console.log(JSON.stringify({ became, seconds: (performance.now() - begun) / 1000 }));
await client.close();
