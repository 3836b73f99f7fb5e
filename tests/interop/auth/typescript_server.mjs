// A protected server made with the official TypeScript SDK, for those whom the issuer in its argument
// lets in. It says on stderr which port it has, and ends when its input does.

import { createServer } from 'node:http';

import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  createMcpHandler,
  getOAuthProtectedResourceMetadataUrl,
  McpServer,
  OAuthError,
  OAuthErrorCode,
  oauthMetadataResponse,
  requireBearerAuth,
  requireScopes,
} from '@modelcontextprotocol/server';
import { createRemoteJWKSet, jwtVerify } from 'jose';

const issuer = process.argv[2];
const keys = createRemoteJWKSet(new URL(`${issuer}/jwks`));
const oauthMetadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();

function say(text) {
  return { content: [{ type: 'text', text }] };
}

const handler = createMcpHandler(() => {
  const server = new McpServer({ name: 'typescript', version: '1.0' });
  server.registerTool('whoami', { description: 'Say who calls.' }, ({ http }) => {
    const { clientId, scopes, extra } = http.authInfo;
    const found = { subject: extra.sub, client_id: clientId, scopes };
    return { ...say(JSON.stringify(found)), structuredContent: found };
  });
  server.registerTool(
    'write',
    { description: 'Do what needs more.', scopeChallenge: requireScopes('mcp', 'files:write') },
    () => say('written'),
  );
  return server;
});

function protect(url) {
  async function verifyAccessToken(token) {
    try {
      const { payload } = await jwtVerify(token, keys, { issuer, audience: url.href });
      return {
        token,
        clientId: payload.client_id,
        scopes: payload.scope.split(' '),
        expiresAt: payload.exp,
        resource: url,
        extra: payload,
      };
    } catch (error) {
      throw new OAuthError(OAuthErrorCode.InvalidToken, error.message);
    }
  }
  const gate = requireBearerAuth({
    verifier: { verifyAccessToken },
    requiredScopes: ['mcp'],
    resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(url),
    expectedResource: url,
  });
  const about = { oauthMetadata, resourceServerUrl: url, scopesSupported: ['mcp'] };
  return async (request) => {
    const metadata = oauthMetadataResponse(request, about);
    if (metadata) return metadata;
    const authInfo = await gate(request);
    return authInfo instanceof Response ? authInfo : handler.fetch(request, { authInfo });
  };
}

const server = createServer().listen(0, '127.0.0.1', () => {
  const { port } = server.address();
  server.on('request', toNodeHandler({ fetch: protect(new URL(`http://127.0.0.1:${port}/mcp`)) }));
  console.error(`port ${port}!`);
});
process.stdin.resume().on('end', () => process.exit());
