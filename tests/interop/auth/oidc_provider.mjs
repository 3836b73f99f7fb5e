// The certified authorization server of `oidc-provider`, on a free port of this machine.
//
// Its argument is JSON: `clients` that are registered, the `format` of access tokens for every
// resource (jwt or opaque), whether DPoP proofs need `nonces`, the `documents` of clients by their
// URL, and the `methods` by which clients show who they are. It is also an enterprise's identity
// provider, which exchanges its ID tokens. At /rotate it takes new keys in place of the old. It says
// on stderr which port it has, and ends when its input does.

import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';

import { createRemoteJWKSet, exportJWK, generateKeyPair, importJWK, jwtVerify, SignJWT } from 'jose';
import { errors, Provider } from 'oidc-provider';

// Which Node.js has had since 20.19.
URL.parse ??= (text, base) => (URL.canParse(text, base) ? new URL(text, base) : null);

const {
  clients = [],
  format = 'jwt',
  nonces = false,
  documents = {},
  methods = ['none', 'client_secret_basic', 'private_key_jwt'],
} = JSON.parse(process.argv[2]);
const TOKEN_TYPE = 'urn:ietf:params:oauth:token-type';
const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
const EXCHANGED = [
  'audience',
  'requested_token_type',
  'resource',
  'scope',
  'subject_token',
  'subject_token_type',
];
const SCOPES = 'mcp files:read files:write';

async function keyFor(alg) {
  const { privateKey } = await generateKeyPair(alg, { extractable: true });
  const kid = randomBytes(8).toString('hex');
  return { ...(await exportJWK(privateKey)), alg, use: 'sig', kid };
}

async function newKeys() {
  return { keys: [await keyFor('RS256'), await keyFor('ES256')] };
}

const configuration = {
  clients,
  clientAuthMethods: methods,
  jwks: await newKeys(),
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

// Makes of an ID token a word for an authorization server of the enterprise (RFC 8693, ID-JAG).
async function exchange(ctx) {
  const { client, params, provider } = ctx.oidc;
  const keys = createRemoteJWKSet(new URL(`${provider.issuer}/jwks`));
  const claims = { issuer: provider.issuer, audience: client.clientId };
  const { payload } = await jwtVerify(params.subject_token, keys, claims).catch((error) => {
    throw new errors.InvalidGrant(error.message);
  });
  if (params.requested_token_type !== `${TOKEN_TYPE}:id-jag`) throw new errors.InvalidRequest();
  if (params.subject_token_type !== `${TOKEN_TYPE}:id_token`) throw new errors.InvalidRequest();
  const key = configuration.jwks.keys.find(({ alg }) => alg === 'ES256');
  const { resource, scope } = params;
  const assertion = await new SignJWT({ resource, scope, client_id: client.clientId })
    .setProtectedHeader({ alg: key.alg, kid: key.kid, typ: 'oauth-id-jag+jwt' })
    .setIssuer(provider.issuer)
    .setSubject(payload.sub)
    .setAudience(params.audience)
    .setJti(randomBytes(16).toString('hex'))
    .setIssuedAt()
    .setExpirationTime('60s')
    .sign(await importJWK(key));
  ctx.body = {
    access_token: assertion,
    issued_token_type: params.requested_token_type,
    token_type: 'N_A',
    expires_in: 60,
  };
}

const server = createServer().listen(0, '127.0.0.1', () => {
  const { port } = server.address();
  let answer;

  function start() {
    const provider = new Provider(`http://127.0.0.1:${port}`, configuration);
    provider.registerGrantType(TOKEN_EXCHANGE, exchange, EXCHANGED, ['resource']);
    provider.on('server_error', (_, error) => console.error(error));
    answer = provider.callback();
  }

  start();
  server.on('request', async (request, response) => {
    if (request.url === '/rotate') {
      configuration.jwks = await newKeys();
      start();
      response.end();
    } else {
      answer(request, response);
    }
  });
  console.error(`port ${port}!`);
});
process.stdin.resume().on('end', () => process.exit());
