// The certified authorization server of `oidc-provider`, on a free port of this machine.
//
// Its argument is JSON: `clients` that are registered, the `format` of access tokens for every
// resource (jwt or opaque), whether DPoP proofs need `nonces`, the `documents` of clients by their
// URL, and the `methods` by which clients show who they are. It says on stderr which port it has,
// and ends when its input does.

import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';

import { exportJWK, generateKeyPair } from 'jose';
import { Provider } from 'oidc-provider';

// Which Node.js has had since 20.19.
URL.parse ??= (text, base) => (URL.canParse(text, base) ? new URL(text, base) : null);

const {
  clients = [],
  format = 'jwt',
  nonces = false,
  documents = {},
  methods = ['none', 'client_secret_basic', 'private_key_jwt'],
} = JSON.parse(process.argv[2]);
const SCOPES = 'mcp files:read files:write';

async function keyFor(alg) {
  const { privateKey } = await generateKeyPair(alg, { extractable: true });
  return { ...(await exportJWK(privateKey)), alg, use: 'sig', kid: alg };
}

const configuration = {
  clients,
  clientAuthMethods: methods,
  jwks: { keys: [await keyFor('RS256'), await keyFor('ES256')] },
  scopes: ['openid', 'offline_access', ...SCOPES.split(' ')], // which clients may register
  cookies: { keys: [randomBytes(32).toString('hex')] },
  fetch: async (url) => Response.json(documents[url]),
  extraTokenClaims: () => ({ tenant: 'acme' }),
  features: {
    clientCredentials: { enabled: true },
    clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
    dPoP: { enabled: true, nonceSecret: randomBytes(32), requireNonce: () => nonces },
    introspection: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, resource) => ({
        scope: SCOPES,
        audience: resource,
        accessTokenFormat: format,
        jwt: { sign: { alg: 'ES256' } },
      }),
    },
    revocation: { enabled: true },
  },
};

const server = createServer().listen(0, '127.0.0.1', () => {
  const { port } = server.address();
  const provider = new Provider(`http://127.0.0.1:${port}`, configuration);
  provider.on('server_error', (_, error) => console.error(error));
  server.on('request', provider.callback());
  console.error(`port ${port}!`);
});
process.stdin.resume().on('end', () => process.exit());
