// What a reader's browser finds on the site. Arguments: where Chromium is, the address of the site, and
// what to look for, as JSON: pages to judge, and queries. Prints what was found, as JSON.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const [executablePath, site, asked] = process.argv.slice(2);
const { pages, queries } = JSON.parse(asked);
const browser = await chromium.launch({
  executablePath,
  timeout: 120_000, // on a busy machine it takes long
  args: ['--no-sandbox', '--no-proxy-server', '--disable-dev-shm-usage'],
});
const violations = [];
const first = {};
try {
  for (const colorScheme of ['light', 'dark'])
    for (const viewport of [{ width: 1280, height: 900 }, { width: 390, height: 844 }]) {
      const page = await browser.newPage({ viewport, colorScheme, reducedMotion: 'reduce' });
      page.setDefaultTimeout(120_000);
      for (const each of pages) {
        await page.goto(`${site}/${each}`);
        await page.evaluate(AXE);
        const found = (await page.evaluate(() => globalThis.axe.run())).violations;
        const where = `${each}, ${viewport.width}, ${colorScheme}`;
        violations.push(...found.map((one) => `${where}: ${one.id}: ${one.nodes[0].html}`));
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (over > 0) violations.push(`${where}: wider than the screen by ${over}`);
      }
      await page.close();
    }
  const page = await browser.newPage();
  page.setDefaultTimeout(120_000);
  for (const query of queries) {
    await page.goto(`${site}/search.html?q=${encodeURIComponent(query)}`);
    const link = page.locator('#search-results ul.search > li a').first();
    await page.locator('#search-results .search-summary', { hasText: /found/i }).waitFor();
    first[query] = (await link.getAttribute('href')).split(/[?#]/)[0];
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify({ violations, first }));
