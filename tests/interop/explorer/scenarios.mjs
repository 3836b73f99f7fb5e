// What people do with the explorer, each a function of the page and of what the test tells it.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const connected = (page) => page.locator('#dot.good').waitFor();
const card = (page, index = 0) => page.locator('#calls article').filter({ visible: true }).nth(index);
const send = (page, words = 'Call') => page.getByRole('button', { name: words, exact: true }).click();
const field = (page, label) => page.getByLabel(label, { exact: true });

async function speak(page, revision) {
  await connected(page);
  if (!revision) return;
  await page.selectOption('#revision', revision);
  await page.locator('#status', { hasText: `MCP ${revision}` }).waitFor();
}

async function open(page, kind, key) {
  await page.evaluate(([a, b]) => (location.hash = `#${a}/${encodeURIComponent(b)}`), [kind, key]);
  await page.locator('#detail h2').waitFor();
}

/** Call a tool without arguments, or with those that are in the form. */
async function call(page, tool, values = {}) {
  await open(page, 'tool', tool);
  for (const [label, value] of Object.entries(values)) await field(page, label).fill(String(value));
  await send(page);
}

async function ends(page, state, index = 0) {
  await card(page, index).getByRole('status').filter({ hasText: state }).waitFor();
  return card(page, index).innerText();
}

async function axe(page, where, options = {}) {
  await page.evaluate(AXE); // by the debugger, which no security policy of a page forbids
  const { violations } = await page.evaluate((each) => globalThis.axe.run(each), options);
  const told = violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.html)}`);
  assert.deepEqual(told, [], where);
}

async function calls(page, { revision }) {
  await speak(page, revision);
  await page.locator('#search').fill('two numbers');
  await page.locator('#items .item').first().click();
  assert.equal(await page.evaluate(() => location.hash), '#tool/add');
  assert.match(await page.title(), /^add · kitchen/);
  await page.getByText('read-only').waitFor();
  await send(page);
  assert.equal(await field(page, 'a').getAttribute('aria-invalid'), 'true');
  await field(page, 'a').fill('four');
  await send(page);
  await page.getByText('This is not a number').waitFor();
  await field(page, 'a').fill('4');
  await field(page, 'a').press('Control+Enter');
  assert.match(await ends(page, 'done'), /total: 7/);
  await page.getByRole('button', { name: 'JSON', exact: true }).click();
  const json = field(page, 'Arguments as JSON');
  assert.deepEqual(JSON.parse(await json.inputValue()), { a: 4, b: 3 });
  await json.fill('{"a": 40, "b": "x"}');
  await send(page);
  assert.match(await card(page).innerText(), /error|failed|running/);
  await card(page).locator('[role=status]').filter({ hasText: /failed|error/ }).waitFor();
  await card(page, 1).getByRole('button', { name: 'Again' }).click();
  assert.match(await ends(page, 'done'), /total: 7/);
  assert.equal(await page.locator('#calls article').count(), 3, 'side by side');
  await card(page).getByRole('button', { name: 'Copy' }).click();
  const copied = JSON.parse(await page.evaluate(() => navigator.clipboard.readText()));
  assert.deepEqual(copied.structuredContent, { total: 7 });
  await card(page).getByRole('button', { name: 'Edit' }).click();
  assert.equal(await field(page, 'a').inputValue(), '4');
  await page.reload();
  await connected(page);
  await page.locator('#detail h2', { hasText: 'add' }).waitFor();
}

async function progress(page, { revision }) {
  await speak(page, revision);
  await call(page, 'bake', { steps: 4 });
  const said = await ends(page, 'done');
  assert.match(said, /baked/);
  assert.match(said, /in the oven: 4/);
  await field(page, 'forever').check();
  await send(page);
  await card(page).getByText('4 of 4').waitFor();
  assert.equal(await card(page).getByRole('progressbar').evaluate((each) => each.value), 4);
  await card(page).getByRole('button', { name: 'Cancel' }).click();
  await ends(page, 'cancelled');
  for (let tries = 0; ; tries += 1) {
    await call(page, 'burnt');
    if (/bake/.test((await ends(page, 'done')).replace('burnt', ''))) return;
    assert(tries < 50, 'the server has not been told');
  }
}

async function questions(page, { revision }) {
  await speak(page, revision);
  const question = page.locator('.question');
  await call(page, 'greet');
  await question.getByRole('button', { name: 'Accept' }).click();
  await question.getByText('Required').waitFor();
  await question.getByLabel('name', { exact: true }).fill('Ada');
  await question.getByRole('button', { name: 'Accept' }).click();
  assert.match(await ends(page, 'done'), /accept Person\(name='Ada', age=18\)/);
  await send(page);
  await question.getByRole('button', { name: 'Decline' }).click();
  assert.match(await ends(page, 'done'), /decline None/);
  await send(page);
  await question.getByText('Answer with JSON').click();
  await question.getByLabel('Answer', { exact: true }).fill('{"action": "accept", "content": {"name": 5}}');
  await question.getByRole('button', { name: 'Send', exact: true }).click();
  await card(page).locator('[role=status].bad').waitFor();
  await open(page, 'tool', 'ask');
  const what = (kind) => field(page, 'what').selectOption({ label: kind });
  await what('model');
  await send(page);
  await question.getByText('What is 6 times 7?').waitFor();
  await question.getByLabel('Your answer as the model').fill('42');
  await question.getByRole('button', { name: 'Send answer' }).click();
  assert.match(await ends(page, 'done'), /a person says 42/);
  await what('roots');
  await send(page);
  await question.getByLabel('One file: URI per line').fill('file:///a\nfile:///b');
  await question.getByRole('button', { name: 'Send', exact: true }).click();
  assert.match(await ends(page, 'done'), /file:\/\/\/a, file:\/\/\/b/);
  await what('page');
  await send(page);
  const link = question.getByRole('link');
  assert.equal(await link.getAttribute('href'), 'https://pay.example/now');
  assert.equal(await link.getAttribute('rel'), 'noopener noreferrer');
  await question.getByRole('button', { name: 'Accept' }).click();
  assert.match(await ends(page, 'done'), /accept/);
  await what('model'); // a question that somebody leaves: its call can be cancelled
  await send(page);
  await question.waitFor();
  await open(page, 'tool', 'forms'); // which pushes the question out of sight
  await page.getByRole('button', { name: 'Show' }).click();
  assert(await question.isVisible());
  await card(page).getByRole('button', { name: 'Cancel' }).first().click();
  await ends(page, 'cancelled');
  assert.equal(await question.count(), 0);
}

async function resources(page, { revision }) {
  await speak(page, revision);
  await open(page, 'resource', 'note://eggs');
  await send(page, 'Read');
  assert.match(await ends(page, 'done'), /3 eggs/);
  await send(page, 'Subscribe');
  await page.locator('button[aria-pressed=true]', { hasText: 'Subscribe' }).waitFor();
  await call(page, 'buy', { eggs: 2 });
  await open(page, 'resource', 'note://eggs');
  await page.getByText('5 eggs', { exact: true }).waitFor();
  await open(page, 'template', 'shelf://{room}/{number}');
  await field(page, 'room').fill('c');
  await page.locator('datalist option[value=cellar]').waitFor({ state: 'attached' });
  await field(page, 'room').fill('cellar');
  await field(page, 'number').fill('7');
  await field(page, 'number').press('Enter');
  assert.match(await ends(page, 'done'), /cellar 7/);
  await open(page, 'prompt', 'review');
  await field(page, 'dish').fill('soup');
  await field(page, 'language').fill('da');
  await page.locator('datalist option[value=danish]').waitFor({ state: 'attached' });
  await field(page, 'language').fill('danish');
  await send(page, 'Get');
  assert.match(await ends(page, 'done'), /Review soup in danish/);
}

async function forms(page) {
  await connected(page);
  await open(page, 'tool', 'forms');
  await field(page, 'text').fill('too long');
  await send(page);
  await page.getByText('At most 5 characters', { exact: true }).waitFor();
  await field(page, 'text').fill('fine');
  await field(page, 'number').fill('12345678901234567890');
  await field(page, 'choice').selectOption({ label: 'null' });
  await field(page, 'titled').selectOption({ label: 'Bob' });
  await page.getByRole('button', { name: 'Add several' }).click();
  await field(page, 'x').check();
  await field(page, 'z').check();
  await page.getByRole('button', { name: 'Add list' }).click();
  for (const [at, value] of [1.5, -2].entries()) {
    await page.getByRole('button', { name: 'Add an item' }).click();
    await field(page, `list[${at}]`).fill(String(value));
  }
  await field(page, 'flag').selectOption({ label: 'false' });
  await field(page, 'Kind of shape').selectOption({ label: 'square' });
  await field(page, 'side').fill('2');
  await page.getByRole('button', { name: 'Add members' }).click();
  await page.getByRole('button', { name: 'Add a member' }).click();
  await field(page, 'name').fill('one');
  await field(page, 'value').fill('1');
  await page.getByRole('button', { name: 'Add tree' }).click();
  await field(page, 'leaf').fill('top');
  await page.getByRole('button', { name: 'Add below' }).click();
  await field(page, 'leaf').nth(1).fill('low');
  await page.getByRole('button', { name: 'JSON', exact: true }).click();
  const json = await field(page, 'Arguments as JSON').inputValue();
  assert.match(json, /"number": 12345678901234567890/, 'no digit is lost');
  const { number, ...rest } = JSON.parse(json);
  assert.deepEqual(rest, {
    text: 'fine',
    choice: null,
    titled: 'b',
    several: ['x', 'z'],
    list: [1.5, -2],
    flag: false,
    shape: { kind: 'square', side: 2 },
    members: { one: 1 },
    tree: { leaf: 'top', below: { leaf: 'low' } },
    day: '2026-01-02',
  });
  await page.getByRole('button', { name: 'Form', exact: true }).click();
  assert.equal(await field(page, 'leaf').nth(1).inputValue(), 'low', 'and back into the form');
  await send(page);
  assert.match(await ends(page, 'done'), /number: 12345678901234567890/);
}

async function untrusted(page) {
  await connected(page);
  await page.locator('#views').getByText('Server').click();
  await page.getByText('<img src=x').first().waitFor();
  await call(page, 'fail');
  assert.match(await ends(page, 'failed'), /<img src=x/);
  await call(page, 'contents');
  assert.match(await ends(page, 'done'), /2: 12345678901234567890/);
  assert.equal(await card(page).locator('img').count(), 1, 'the picture, and none of what is a text');
  assert.equal(await card(page).locator('a').count(), 0, 'no script is a link');
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    card(page).getByRole('button', { name: 'Download' }).last().click(),
  ]);
  assert.equal(readFileSync(await file.path()).length, 256);
  await card(page).getByRole('button', { name: 'a trap' }).click();
  await card(page, 0).locator('[role=status].bad').waitFor();
  assert.match(await page.title(), /kitchen/);
  assert(await page.evaluate(() => {
    try {
      document.body.innerHTML = '<b>';
    } catch {
      return true;
    }
  }), 'Trusted Types');
}

async function changes(page, { revision }) {
  await speak(page, revision);
  await call(page, 'grow', { name: 'a_new_one' });
  await page.locator('#items .item', { hasText: 'a_new_one' }).waitFor();
  assert.equal(await field(page, 'name').inputValue(), 'a_new_one', 'the form is as it was');
}

async function tasks(page) {
  await connected(page);
  await call(page, 'film');
  await page.locator('.question').getByLabel('value').fill('M');
  await page.locator('.question').getByRole('button', { name: 'Accept' }).click();
  const said = await ends(page, 'done');
  assert.match(said, /a film: M/);
  const [, id] = /task (\S+)/.exec(said);
  await page.locator('#views').getByText('Tasks').click();
  await field(page, 'id').fill(id);
  await send(page, 'Follow');
  assert.match(await ends(page, 'done'), /a film: M/);
}

async function messages(page) {
  await connected(page);
  await call(page, 'add', { a: 1 });
  await ends(page, 'done');
  await page.locator('#log-toggle').click();
  await page.locator('#log-filter').fill('tools/call');
  await page.locator('#log-list .item', { hasText: 'tools/call' }).click();
  await page.getByRole('button', { name: 'Copy as command' }).click();
  const command = await page.evaluate(() => navigator.clipboard.readText());
  await page.getByRole('button', { name: 'Copy JSON' }).click();
  return [command, JSON.parse(await page.evaluate(() => navigator.clipboard.readText()))];
}

async function keyboard(page) {
  await connected(page);
  const title = (name) => page.locator('#detail h2', { hasText: new RegExp(`^${name}$`) }).waitFor();
  await page.locator('#keys').getByText('search').waitFor();
  await title('add'); // the first one
  await page.keyboard.press('/');
  await page.keyboard.type('how far');
  await page.keyboard.press('ArrowDown');
  await title('bake');
  await page.keyboard.press('Control+Enter'); // in the list
  assert.match(await ends(page, 'done'), /baked/);
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.labels[0].textContent), 'steps');
  await field(page, 'forever').check();
  await page.keyboard.press('Control+Enter');
  await card(page).getByText('3 of 3').waitFor();
  await page.keyboard.press('Escape');
  await ends(page, 'cancelled');
  await page.keyboard.press('Tab');
  await page.locator('#search').fill('two numbers');
  await page.locator('#search').press('ArrowDown');
  await title('add');
  const tabTo = async (name) => {
    for (let steps = 0; steps < 40; steps += 1) {
      await page.keyboard.press('Tab');
      const [words, outline] = await page.evaluate(() => {
        const { labels, textContent } = document.activeElement;
        const { outlineStyle } = getComputedStyle(document.activeElement);
        return [labels?.[0]?.textContent ?? textContent, outlineStyle];
      });
      assert.notEqual(outline, 'none', `the focus is seen on ${words}`);
      if (words === name) return;
    }
    assert.fail(`Tab does not lead to ${name}`);
  };
  await tabTo('a');
  await page.keyboard.type('5');
  await page.keyboard.press('Enter');
  assert.match(await ends(page, 'done'), /total: 8/);
  assert.match(await page.locator('#announcer').textContent(), /^add: done after .*"total":8/);
  await tabTo('Again');
  await page.keyboard.press('Enter');
  await page.locator('#calls article').nth(1).waitFor();
  await ends(page, 'done');
}

const PHONE = { width: 390, height: 800 };
const DESKTOP = { width: 1280, height: 800 };

/** Have axe judge the page in both colours, and on both screens. */
async function axeEverywhere(page, where) {
  for (const viewport of [DESKTOP, PHONE]) {
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme: 'light' });
    await axe(page, `${where}, ${viewport.width}, light`);
    await page.emulateMedia({ colorScheme: 'dark' }); // which changes colours only
    await axe(page, `${where}, ${viewport.width}, dark`, { runOnly: ['color-contrast'] });
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert(overflow <= 0, `nothing is wider than the screen: ${where}`);
  }
  await page.setViewportSize(DESKTOP);
}

async function accessible(page) {
  await connected(page);
  await axeEverywhere(page, 'at the beginning');
  await call(page, 'add', { a: 1 });
  await ends(page, 'done');
  await open(page, 'tool', 'forms');
  for (const name of ['several', 'list', 'members', 'tree'])
    await page.getByRole('button', { name: `Add ${name}` }).click();
  await send(page);
  await axeEverywhere(page, 'a form with mistakes');
  await call(page, 'contents');
  await ends(page, 'done');
  await call(page, 'greet');
  await page.locator('.question').waitFor();
  await page.locator('#log-toggle').click();
  await page.locator('#log-list .item').first().click();
  await axeEverywhere(page, 'a question, and messages');
  await page.evaluate(() => (location.hash = '#tool/add?arguments=%7B%22a%22%3A1%7D'));
  await page.getByText('Filled in from a link').waitFor();
  await axeEverywhere(page, 'a form that a link has filled in');
  await page.locator('#views').getByText('Calls').click();
  await axeEverywhere(page, 'calls');
}

async function theme(page) {
  await connected(page);
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const [light, dark] = ['rgb(255, 255, 255)', 'rgb(20, 23, 28)'];
  await page.emulateMedia({ colorScheme: 'dark' });
  for (const [name, colour] of [['system', dark], ['light', light], ['dark', dark], ['system', dark]]) {
    await page.getByRole('button', { name: `Theme: ${name}` }).waitFor();
    assert.equal(await page.locator('#theme svg').filter({ visible: true }).count(), 1);
    assert.equal(await paper(), colour, name);
    await page.locator('#theme').click();
  }
  await page.reload();
  await page.getByRole('button', { name: 'Theme: light' }).waitFor();
  assert.equal(await paper(), light, 'it is kept');
}

/** On a phone the list is behind a button. */
async function phone(page) {
  await page.setViewportSize(PHONE);
  await connected(page);
  await page.locator('#detail h2', { hasText: 'add' }).waitFor();
  const list = page.locator('#items');
  assert(!(await list.isVisible()) && !(await page.locator('#revision').isVisible()));
  const menu = page.getByRole('button', { name: 'List of tools and more' });
  await menu.click();
  assert.equal(await menu.getAttribute('aria-expanded'), 'true');
  assert(!(await page.locator('#main').isVisible()));
  await axe(page, 'the list on a phone');
  await page.keyboard.press('Escape');
  assert(!(await list.isVisible()));
  assert.equal(await page.evaluate(() => document.activeElement.id), 'menu');
  await menu.click();
  await page.locator('#items .item', { hasText: 'Ask who you are' }).click();
  assert(!(await list.isVisible()));
  await send(page);
  const question = page.locator('.question');
  await question.waitFor();
  await menu.click();
  await page.locator('#views').getByText('Server').click();
  await page.getByRole('button', { name: 'Show', exact: true }).click();
  await question.getByRole('button', { name: 'Decline' }).click();
  assert.match(await ends(page, 'done'), /decline/);
}

/** A link opens a filled form, and calls nothing. */
async function links(page) {
  const sent = [];
  page.on('request', (request) => sent.push(request.postData() ?? ''));
  await connected(page);
  const shared = async () => {
    await page.evaluate(() => (document.getElementById('toast').hidden = true));
    await page.getByRole('button', { name: 'Copy link' }).click();
    await page.locator('#toast', { hasText: 'Copied' }).waitFor();
    return page.evaluate(() => navigator.clipboard.readText());
  };
  const follow = async (link) => {
    await page.goto('about:blank');
    await page.goto(link);
    await connected(page);
    await page.locator('#detail h2').waitFor();
  };
  const [bare] = page.url().split('#');
  await open(page, 'tool', 'forms');
  await field(page, 'text').fill('ä?#&');
  await field(page, 'number').fill('12345678901234567890');
  const link = await shared();
  await follow(link);
  assert.equal(await field(page, 'text').inputValue(), 'ä?#&');
  assert.equal(await field(page, 'number').inputValue(), '12345678901234567890', 'no digit is lost');
  await page.getByText('Filled in from a link. Check the arguments before you press Call.').waitFor();
  await page.getByRole('button', { name: 'JSON', exact: true }).click();
  await field(page, 'Arguments as JSON').fill('{"text": "a", "unknown": 1}');
  await follow(await shared());
  const json = await field(page, 'Arguments as JSON').inputValue();
  assert.deepEqual(JSON.parse(json), { text: 'a', unknown: 1 }, 'what has no field is shown too');
  await open(page, 'prompt', 'review');
  await field(page, 'dish').fill('soup');
  await follow(await shared());
  assert.equal(await field(page, 'dish').inputValue(), 'soup');
  await open(page, 'template', 'shelf://{room}/{number}');
  await field(page, 'room').fill('attic');
  await follow(await shared());
  assert.equal(await field(page, 'room').inputValue(), 'attic');
  await open(page, 'resource', 'note://eggs');
  assert.equal(await shared(), `${bare}#resource/note%3A%2F%2Feggs`);
  await open(page, 'tool', 'secretive');
  await field(page, 'name').fill('ann');
  await field(page, 'password').fill('hunter2');
  assert.match(await shared(), /ann/);
  assert(!(await shared()).includes('hunter2'), 'passwords are for no link');
  await open(page, 'tool', 'forms');
  await page.getByRole('button', { name: 'JSON', exact: true }).click();
  await field(page, 'Arguments as JSON').fill(JSON.stringify({ text: 'x'.repeat(8000) }));
  await page.getByRole('button', { name: 'Copy link' }).click();
  await page.getByText('too long for a link').waitFor();
  for (const [wrong, words] of [
    ['x'.repeat(8001), 'too long'],
    ['%7B', 'not a JSON object'],
    ['%', 'not a JSON object'],
    ['[1]', 'not a JSON object'],
    ['', 'not a JSON object'],
  ]) {
    await follow(`${bare}#tool/add?arguments=${wrong}`);
    await page.locator('#detail .note', { hasText: words }).waitFor();
    assert.equal(await field(page, 'a').inputValue(), '');
  }
  await follow(`${bare}#tool/add?arguments=${encodeURIComponent('{"a": {"b": []}, "b": "x"}')}`);
  assert.equal(await field(page, 'b').inputValue(), 'x', 'what does not fit is shown, and found when it is sent');
  await follow(`${bare}#tool/nowhere`);
  await page.getByText('The server has no tool “nowhere”').waitFor();
  const methods = sent.map((each) => /"method":"([^"]*)"/.exec(each)?.[1]);
  assert(methods.includes('tools/list'));
  for (const each of ['tools/call', 'prompts/get', 'resources/read'])
    assert(!methods.includes(each), 'a link calls nothing');
}

/** A server without anything says what to do next. */
async function empty(page) {
  await connected(page);
  await page.getByRole('heading', { name: 'This server offers nothing yet' }).waitFor();
  await page.getByText('@registry.tool').waitFor();
  await axeEverywhere(page, 'a server that offers nothing');
  await page.locator('#main').getByRole('button', { name: 'Reconnect' }).click();
  await connected(page);
  await page.locator('#views').getByText('Calls').click();
  await page.getByText('No calls yet').waitFor();
}

async function many(page) {
  await connected(page);
  await page.locator('#found', { hasText: /^10000 tools/ }).waitFor();
  assert((await page.locator('#items .item').count()) < 60, 'rows out of sight do not exist');
  const search = await page.evaluate(() => {
    const input = document.getElementById('search');
    const times = [...'tool_09'].map((_, at, all) => {
      input.value = all.slice(0, at + 1).join('');
      const began = performance.now();
      input.dispatchEvent(new Event('input'));
      document.body.offsetHeight; // with its layout
      return performance.now() - began;
    });
    return Math.max(...times);
  });
  await page.locator('#found', { hasText: '1000 of 10000' }).waitFor();
  const third = page.locator('#items .item').nth(2);
  const name = await third.locator('.title').textContent();
  await third.hover();
  await page.mouse.down();
  await page.evaluate(() => document.getElementById('items').dispatchEvent(new Event('scroll'))); // draws the rows
  await page.mouse.up();
  await page.locator('#detail h2', { hasText: name }).waitFor();
  await page.locator('#items').focus();
  const entries = await page.evaluate(() => history.length);
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('End');
  await page.locator('#detail h2', { hasText: 'tool_09999' }).waitFor();
  assert.equal(await page.evaluate(() => history.length), entries, 'keys do not fill the history');
  return { search };
}

async function long(page) {
  await connected(page);
  await page.evaluate(() => {
    globalThis.worst = 0;
    new PerformanceObserver((list) => {
      for (const each of list.getEntries()) globalThis.worst = Math.max(globalThis.worst, each.duration);
    }).observe({ entryTypes: ['longtask'] });
  });
  await call(page, 'long');
  await ends(page, 'done');
  const shown = () => card(page).locator('.box pre').last().evaluate((each) => each.textContent.length);
  assert.equal(await shown(), 10000);
  await card(page).getByRole('button', { name: 'Show more' }).click();
  assert.equal(await shown(), 210000);
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    card(page).getByRole('button', { name: 'Download' }).click(),
  ]);
  assert.equal(readFileSync(await file.path()).length, 10_000_000);
  for (let each = 0; each < 4; each += 1) {
    await call(page, 'long');
    await ends(page, 'done');
  }
  const kept = await page.locator('#log-count').textContent();
  return { kept, worst: await page.evaluate(() => globalThis.worst) };
}

async function token(page, { token }) {
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  await dialog.getByLabel('Token').fill('wrong');
  await dialog.getByRole('button', { name: 'Use it' }).click();
  await page.locator('#status', { hasText: 'not valid' }).waitFor();
  await dialog.getByLabel('Token').fill(token);
  await dialog.getByRole('button', { name: 'Use it' }).click();
  await connected(page);
  await call(page, 'add', { a: 1 });
  await ends(page, 'done');
  const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
  assert(!stored.includes(token), 'it is kept in memory only');
}

/** A server that does not start: the page says why, and tries again when asked. */
async function broken(page) {
  const heading = page.getByRole('heading', { name: 'Not connected' });
  await heading.waitFor();
  await page.locator('#detail .note', { hasText: 'no luck' }).waitFor();
  await axeEverywhere(page, 'not connected');
  await page.locator('#log-toggle').click();
  await page.locator('#log-clear').click();
  await page.locator('#main').getByRole('button', { name: 'Reconnect' }).click();
  await page.locator('#log-list .item').first().waitFor();
  await heading.waitFor();
}

/** A server of somebody else's: what it has is listed, and a tool and a resource are used. */
async function foreign(page, { speaks, tool, values, says, resource }) {
  await page.locator('#status', { hasText: `MCP ${speaks}` }).waitFor();
  assert(!page.url().includes('token'), 'the token is out of sight');
  await call(page, tool, values);
  assert.match(await ends(page, 'done'), new RegExp(says));
  if (!resource) return;
  await page.locator('#views').getByText('Resources').click();
  await page.locator('#items .item', { hasText: resource }).first().click();
  await send(page, 'Read');
  await ends(page, 'done');
}

async function crash(page) {
  await connected(page);
  await call(page, 'quit');
  await page.locator('#status', { hasText: 'Not connected' }).waitFor();
  await ends(page, 'error');
  await page.locator('#log-toggle').click();
  await page.locator('#log-list .item', { hasText: 'No more of this' }).waitFor();
  await page.getByRole('button', { name: 'Reconnect' }).click();
  await connected(page);
  await call(page, 'add', { a: 1 });
  await ends(page, 'done');
}

/** A server that means harm: the page shows all of it, and goes on. */
async function hostile(page, { schemas }) {
  await connected(page);
  for (const name of schemas) {
    await page.evaluate((each) => (location.hash = `#tool/${each}`), name);
    await page.locator('#detail h2, #detail .note').first().waitFor();
  }
  await page.locator('#items .item').first().click();
  await page.locator('#detail h2', { hasText: '<b>huge' }).waitFor();
  await call(page, 'garbage');
  await card(page).locator('[role=status].good').waitFor();
  await call(page, 'flood');
  await page.locator('.question').first().waitFor();
  await card(page).locator('[role=status].good').waitFor();
  assert((await page.locator('.question').count()) <= 10);
  const kept = await page.locator('#log-count').textContent();
  assert(Number(kept.split(' ')[0]) <= 1000, kept);
  assert.equal(await page.locator('#detail a').count(), 0);
  await page.locator('#log-toggle').click();
  await page.locator('#log-list .item').last().click();
  await page.locator('#search').fill('choices');
  await page.locator('#found', { hasText: '2 of 28' }).waitFor();
}

export const scenarios = {
  accessible,
  broken,
  calls,
  changes,
  crash,
  empty,
  foreign,
  forms,
  hostile,
  keyboard,
  links,
  long,
  many,
  messages,
  phone,
  progress,
  questions,
  resources,
  tasks,
  theme,
  token,
  untrusted,
};
