// A person with a real browser. Arguments: where Chromium is, the page, the name of a scenario, and
// what that is told, as JSON. Fails if the page logs an error or breaks its own security policy.

import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';
import { scenarios } from './scenarios.mjs';

const [executablePath, url, name, told] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath,
  timeout: 120_000, // on a busy machine it takes long
  args: ['--no-sandbox', '--no-proxy-server', '--disable-dev-shm-usage'],
});
try {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    permissions: ['clipboard-read', 'clipboard-write'],
    reducedMotion: 'reduce',
  });
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  const wrong = [];
  const elsewhere = [];
  page.on('pageerror', (error) => wrong.push(String(error.stack)));
  page.on('dialog', (dialog) => (wrong.push(`dialog ${dialog.message()}`), dialog.dismiss()));
  // Responses that are errors are no fault of the page, and one scenario tries to set HTML.
  const expected = /^Failed to load resource|^This document requires 'TrustedHTML'/;
  page.on('console', (message) => {
    if (message.type() === 'error' && !expected.test(message.text())) wrong.push(message.text());
  });
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol !== 'data:' && protocol !== 'blob:' && origin !== new URL(url).origin)
      elsewhere.push(request.url());
  });
  await page.goto(url);
  const found = await scenarios[name](page, JSON.parse(told));
  assert.deepEqual(wrong, []);
  assert.deepEqual(elsewhere, []);
  console.log(JSON.stringify(found ?? null));
} finally {
  await browser.close();
}
