// A person with a real browser uses the MCP Inspector: connects to its only server, logs in, and calls
// tools. The arguments are where Chromium is, the page of the Inspector, and the tools to call, one
// after the other. Prints as JSON what the Inspector shows of each.

import { chromium } from 'playwright-core';

const [executablePath, url, ...tools] = process.argv.slice(2);
const home = new URL(url).origin;
const browser = await chromium.launch({
  executablePath,
  timeout: 120_000, // on a busy machine it takes long
  args: ['--no-sandbox', '--no-proxy-server', '--disable-dev-shm-usage'],
});

// Clicks, and fills in the forms that follow, if any, until the Inspector is sent a code.
async function logIn(page, click) {
  const back = page.waitForRequest((request) => request.url().startsWith(`${home}/oauth/callback`));
  const submit = page.locator('form[method=post] [type=submit]').first();
  const asked = () => submit.waitFor().then(() => true, () => false);
  const sent = back.then(() => false);
  await click();
  while (await Promise.race([sent, asked()])) {
    if (await page.$('[name=login]')) {
      await page.fill('[name=login]', 'alice');
      await page.fill('[name=password]', 'of no matter');
    }
    await Promise.all([page.waitForEvent('load'), submit.click()]);
  }
}

try {
  const page = await browser.newPage({ viewport: { width: 1400, height: 1000 } });
  page.setDefaultTimeout(120_000);
  await page.goto(url);
  const connect = page.getByRole('switch', { name: /^Connect or disconnect/ });
  await logIn(page, () => connect.click({ force: true }));

  const results = {};
  for (const tool of tools) {
    const button = page.getByRole('button', { name: tool, exact: true });
    const more = page.getByRole('button', { name: 'Authorize', exact: true });
    const shown = page.getByText('Results', { exact: true });
    const call = async () => {
      if (!(await button.isVisible())) await page.getByText('Tools', { exact: true }).first().click();
      await button.click();
      await page.getByRole('button', { name: 'Execute Tool', exact: true }).click();
    };
    await call();
    await shown.or(more).first().waitFor();
    if (await more.isVisible()) {
      await logIn(page, () => more.click());
      await call();
      await shown.waitFor();
    }
    results[tool] = await page.evaluate(() => document.body.innerText);
    await button.click();
  }
  console.log(JSON.stringify(results));
} finally {
  await browser.close();
}
