// Drive an HTTP server with the official TypeScript client, and print as JSON what it makes of it.
//
// Usage: node typescript_http_client.mjs MODE URL [TOKEN]
//
// MODE is "legacy", "auto" or a revision. The package is looked up beside this file.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [mode, url, token] = process.argv.slice(2);
const negotiation = ['legacy', 'auto'].includes(mode) ? mode : { pin: mode };

const client = new Client(
  { name: 'typescript-judge', version: '1.0' },
  {
    capabilities: { elicitation: {}, sampling: {}, roots: {} },
    versionNegotiation: { mode: negotiation },
  },
);
const headers = token === undefined ? {} : { Authorization: `Bearer ${token}` };
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });

client.setRequestHandler('elicitation/create', async () => ({
  action: 'accept',
  content: { value: 'Bob' },
}));
client.setRequestHandler('sampling/createMessage', async () => ({
  role: 'assistant',
  model: 'tiny',
  content: { type: 'text', text: 'Hello.' },
}));
client.setRequestHandler('roots/list', async () => ({ roots: [{ uri: 'file:///srv' }] }));

// What a promise gave, or how it failed.
const outcome = async (promise) => {
  try {
    return { result: await promise };
  } catch (error) {
    return { error: { code: error.code, message: error.message, data: error.data } };
  }
};

const call = (name, args = {}, options = undefined, meta = undefined) =>
  outcome(
    client.callTool(
      { name, arguments: args, ...(meta === undefined ? {} : { _meta: meta }) },
      options,
    ),
  );

// The next notifications of a kind, as promises.
const heard = (method) => {
  const waiting = [];
  const come = [];
  client.setNotificationHandler(method, (notification) => {
    const params = notification.params ?? {};
    if (waiting.length > 0) waiting.shift()(params);
    else come.push(params);
  });
  return () =>
    come.length > 0
      ? Promise.resolve(come.shift())
      : new Promise((resolve) => waiting.push(resolve));
};

const withProgress = async () => {
  const steps = [];
  const result = await call('steps', { count: 3 }, { onprogress: (step) => steps.push(step) });
  return { ...result, steps };
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

const logged = async () => {
  const next = heard('notifications/message');
  const legacy = mode === 'legacy' && transport.sessionId !== undefined;
  if (legacy) await client.setLoggingLevel('info');
  const meta = { 'io.modelcontextprotocol/logLevel': 'info' };
  const message = next();
  await call('chat', {}, undefined, mode === 'legacy' ? undefined : meta);
  return await message;
};

const changes = async () => {
  const updated = heard('notifications/resources/updated');
  const listed = heard('notifications/tools/list_changed');
  let subscription;
  if (mode === 'legacy') {
    await client.subscribeResource({ uri: 'stock://tea' });
  } else {
    subscription = await client.listen({
      resourceSubscriptions: ['stock://tea'],
      toolsListChanged: true,
    });
  }
  await call('touch', { uris: ['stock://coffee', 'stock://tea'] });
  const update = await updated();
  await call('add', { name: 'more' });
  await listed();
  if (subscription !== undefined) await subscription.close();
  return { uri: update.uri, tools: (await client.listTools()).tools.map((tool) => tool.name) };
};

await client.connect(transport);
const sessions = transport.sessionId !== undefined;
const canAsk = sessions || mode !== 'legacy';
const report = {
  revision: client.getNegotiatedProtocolVersion(),
  server: client.getServerVersion(),
  sessions,
  tools: (await client.listTools()).tools.map((tool) => tool.name),
  resource: await outcome(client.readResource({ uri: 'stock://tëa' })),
  prompt: await outcome(client.getPrompt({ name: 'greet', arguments: { name: 'Bob' } })),
  text: await call('text', { words: 'grüß dich\r\n\u2028😀' }),
  large: (await call('text', { words: 'x'.repeat(300000) })).result.content[0].text.length,
  progress: await withProgress(),
  logged: await logged(),
  tool_error: await call('fail', { kind: 'tool' }),
  crash: await call('fail', { kind: 'any' }),
  protocol_error: await call('fail', { kind: 'protocol' }),
  unknown: await call('nothing'),
  mirror: await call('mirror', {
    region: 'größe\nx: y',
    count: 42,
    sure: true,
    where: { tenant: ' padded ' },
  }),
  concurrent: (
    await Promise.all([...Array(30).keys()].map((n) => call('text', { words: `${n}` })))
  ).map((each) => each.result.content[0].text),
  ask: await call('ask'),
  ask_model: canAsk ? await call('ask_model') : null,
  list_roots: canAsk ? await call('list_roots') : null,
  cancelled: canAsk ? await cancelled() : null,
  pause: await call('pause'),
  changes: canAsk ? await changes() : null,
};
if (sessions) {
  await transport.terminateSession();
  report.after = await call('text', { words: 'x' });
}
await client.close();
console.log(JSON.stringify(report));
