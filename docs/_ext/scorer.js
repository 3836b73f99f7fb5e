// What a search finds first: pages that say how to do something, then names of the library, and last
// how it is made. Sphinx calls `score` with each result; the other figures are its own.
const LAST = /^(architecture|contributing|promises|bad-input|limits|benchmarks|faults|soak|conformance|changelog|ported)/;

var Scorer = {
  score: ([page, title, anchor, , score]) => {
    const query = new URLSearchParams(location.search).get("q") ?? "";
    if (title === query && !anchor) return score + (page.includes(".aio.") ? 39 : 40); // a class
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const heading = title.split(" > ")[0].toLowerCase();
    const found = anchor ? 0 : words.filter((word) => heading.includes(word)).length;
    const named = 5 * found + (found > 1 && found === words.length ? 8 : 0);
    if (page.startsWith("reference")) return score + named - (page.includes(".aio.") ? 1 : 0);
    return score + named + (LAST.test(page) ? -15 : page.startsWith("tutorial") ? 11 : 12);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
