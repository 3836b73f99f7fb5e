// Pictures of the explorer, light and dark. Arguments: where Chromium is, the page, what to show there
// (one of `scenes`), the folder for the pictures. Fails where the page does not do what is to be shown.

import { chromium } from 'playwright-core';

const [executablePath, url, scene, folder] = process.argv.slice(2);

const choose = async (page, tool) => {
  await page.locator('#items .title').getByText(tool, { exact: true }).click();
  await page.getByRole('heading', { name: tool, exact: true }).waitFor();
};
const call = (page) => page.getByRole('button', { name: 'Call', exact: true }).click();
const card = (page, words) => page.locator('#calls article').filter({ hasText: words }).first();

const scenes = {
  /** Two calls of the calculator, with their results. */
  async calls(page) {
    await choose(page, 'add');
    for (const [a, b, words] of [['1', '2', 'done'], ['20', '22', '42']]) {
      await page.getByLabel('a', { exact: true }).fill(a);
      await page.getByLabel('b', { exact: true }).fill(b);
      await call(page);
      await card(page, words).waitFor();
    }
  },

  /** A result, a question of the server in the next call, and the messages. */
  async asking(page) {
    await page.setViewportSize({ width: 1280, height: 860 }); // two cards side by side
    await choose(page, 'order');
    await page.getByLabel('book', { exact: true }).selectOption({ label: 'Emma' });
    await call(page);
    await page.getByLabel('name', { exact: true }).fill('Ann');
    await page.getByLabel('street', { exact: true }).fill('High Street 1');
    await page.getByRole('button', { name: 'Accept' }).click();
    await card(page, 'Ordered Emma to Ann').waitFor();
    await page.getByLabel('book', { exact: true }).selectOption({ label: 'Middlemarch' });
    await call(page);
    await page.locator('.question').waitFor();
    await page.locator('#log-toggle').click();
    await page.locator('#log-list .item', { hasText: 'tools/call' }).last().click();
    await page.locator('#calls-head').evaluate((each) => each.scrollIntoView());
  },
};

const browser = await chromium.launch({
  executablePath,
  args: ['--no-sandbox', '--no-proxy-server', '--disable-dev-shm-usage'],
});
try {
  for (const colorScheme of ['light', 'dark']) {
    const viewport = { width: 1120, height: 740 };
    const page = await browser.newPage({ viewport, colorScheme, reducedMotion: 'reduce' });
    page.setDefaultTimeout(60000);
    await page.goto(url);
    await page.locator('#dot.good').waitFor();
    await scenes[scene](page);
    await page.screenshot({ path: `${folder}/explorer-${scene}-${colorScheme}.png` });
    await page.close();
  }
} finally {
  await browser.close();
}
