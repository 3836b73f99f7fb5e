// A person with a real browser: logs in at the page of the second argument, and says yes to all that
// is asked. The first argument is where Chromium is. Prints the text of the last page.

import { chromium } from 'playwright-core';

const [executablePath, url] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath,
  timeout: 120_000, // on a busy machine it takes long
  args: ['--no-sandbox', '--no-proxy-server', '--disable-dev-shm-usage'],
});
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(120_000);
  await page.goto(url);
  while (await page.$('form')) {
    if (await page.$('[name=login]')) {
      await page.fill('[name=login]', 'alice');
      await page.fill('[name=password]', 'of no matter');
    }
    await Promise.all([page.waitForEvent('load'), page.click('[type=submit]')]);
  }
  console.log(await page.evaluate(() => document.body.innerText));
} finally {
  await browser.close();
}
