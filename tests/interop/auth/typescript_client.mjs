// A client made with the official TypeScript SDK gets into a server, and prints as JSON whom that
// takes it for, before and after it calls a tool that needs more.
//
// Its argument is JSON: `url` and `mode`, and who it is: `credentials` of a program, or a `client` of
// a person's that was registered before, or nothing; and whether its tokens are to be bound (`dpop`).
// PERSON in the environment is a command that logs in at a page, and prints where that leads.

import { execFileSync } from 'node:child_process';

import {
  Client,
  ClientCredentialsProvider,
  DpopSession,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client';

const { url, mode, credentials, client: registered, dpop = false } = JSON.parse(process.argv[2]);
const [person, ...words] = process.env.PERSON.split(' ');
const session = dpop ? await DpopSession.create() : undefined;

class Person {
  redirectUrl = 'http://127.0.0.1:9/callback';
  clientMetadata = {
    client_name: 'typescript',
    redirect_uris: [this.redirectUrl],
    grant_types: ['authorization_code', 'refresh_token'],
    token_endpoint_auth_method: 'none',
  };
  #client = registered;
  #tokens;
  #verifier;

  clientInformation() {
    return this.#client;
  }
  saveClientInformation(client) {
    this.#client = client;
  }
  tokens() {
    return this.#tokens;
  }
  saveTokens(tokens) {
    this.#tokens = tokens;
  }
  saveCodeVerifier(verifier) {
    this.#verifier = verifier;
  }
  codeVerifier() {
    return this.#verifier;
  }
  redirectToAuthorization(page) {
    const back = execFileSync(person, [...words, page.href], { encoding: 'utf8' });
    this.back = new URL(back.trim()).searchParams;
  }
  dpop() {
    return session;
  }
}

const provider = credentials ? new ClientCredentialsProvider(credentials) : new Person();
let client;
let transport;

async function connect() {
  client = new Client(
    { name: 'typescript-judge', version: '1.0' },
    { versionNegotiation: { mode } },
  );
  transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  await client.connect(transport);
}

async function call(name) {
  const { content } = await client.callTool({ name, arguments: {} });
  return content[0].text;
}

// Does something, and once more when the person has said yes to it.
async function authorized(what) {
  try {
    return await what();
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await transport.finishAuth(provider.back);
    return await what();
  }
}

await authorized(connect);
const before = JSON.parse(await call('whoami'));
const written = await authorized(() => call('write'));
const after = JSON.parse(await call('whoami'));
console.log(JSON.stringify({ before, written, after }));
await client.close();
