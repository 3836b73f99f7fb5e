// Pictures of the explorer, light and dark. Arguments: where Chromium is, the page, the folder for the
// pictures. Fails where the page does not do what the pictures are to show.

import { chromium } from 'playwright-core';

const [executablePath, url, folder] = process.argv.slice(2);
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
    await page.evaluate(() => (location.hash = '#tool/add'));
    const card = (words) => page.locator('#calls article').filter({ hasText: words }).first();
    for (const [a, b, words] of [['1', '2', 'done'], ['20', '22', '42']]) {
      await page.getByLabel('a', { exact: true }).fill(a);
      await page.getByLabel('b', { exact: true }).fill(b);
      await page.getByRole('button', { name: 'Call', exact: true }).click();
      await card(words).waitFor();
    }
    await page.screenshot({ path: `${folder}/explorer-calls-${colorScheme}.png` });
    await page.close();
  }
} finally {
  await browser.close();
}
