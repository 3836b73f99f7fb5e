// Drive a server with the official TypeScript client, and print as JSON what it makes of it.
//
// Usage: node typescript_client.mjs MODE COMMAND [ARGUMENT...]
//
// MODE is "legacy", "auto" or a revision. The package is looked up beside this file.

import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [mode, command, ...args] = process.argv.slice(2);
const negotiation = ['legacy', 'auto'].includes(mode) ? mode : { pin: mode };

const client = new Client(
  { name: 'typescript-judge', version: '1.0' },
  { versionNegotiation: { mode: negotiation } },
);
const transport = new StdioClientTransport({ command, args, env: process.env, stderr: 'inherit' });

// What a promise gave, or how it failed.
const outcome = async (promise) => {
  try {
    return { result: await promise };
  } catch (error) {
    return { error: { code: error.code, message: error.message, data: error.data } };
  }
};

const call = (name, args = {}, options = undefined) =>
  outcome(client.callTool({ name, arguments: args }, options));

const listAll = async () => {
  const tools = [];
  let cursor;
  do {
    const page = await client.listTools(cursor === undefined ? {} : { cursor });
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return tools;
};

const cancelled = async () => {
  const abort = new AbortController();
  const waiting = call('wait', {}, { signal: abort.signal });
  await client.callTool({ name: 'until_waiting', arguments: { calls: 1 } });
  abort.abort('no longer wanted');
  const seen = await waiting;
  await client.callTool({ name: 'until_waiting', arguments: { calls: 0 } });
  return 'error' in seen;
};

await client.connect(transport);
const report = {
  revision: client.getNegotiatedProtocolVersion(),
  server: client.getServerVersion(),
  capabilities: client.getServerCapabilities(),
  instructions: client.getInstructions(),
  ping: mode === 'legacy' ? await outcome(client.ping()) : null,
  tools: await listAll(),
  text: await call('text', { words: 'grüß dich\n\u2028😀' }),
  thread: await call('in_a_thread', { words: 'x'.repeat(300000) }),
  structured: await call('structured', { x: 1.5 }),
  distance: await call('distance', { point: { x: 3, y: 4 } }),
  listed: await call('listed', { count: 3 }),
  image: await call('image'),
  mixed: await call('mixed'),
  nothing: await call('nothing'),
  refuse: await call('refuse'),
  crash: await call('crash'),
  protocol_error: await call('protocol_error'),
  slow: await call('slow'),
  unknown: await call('textt'),
  bad_arguments: await call('text', { words: 1 }),
  impatient: await call('wait', {}, { timeout: 50 }),
  cancelled: await cancelled(),
  concurrent: (
    await Promise.all([...Array(50).keys()].map((n) => call('text', { words: `${n}` })))
  ).map((each) => each.result.content[0].text),
};
await client.close();
console.log(JSON.stringify(report));
