// The HTTP API that the tools of the published comparison ask; the argument is the port.
//
// A hundred thousand products by a formula. It keeps its answers: it is not what is measured.

import { createServer } from "node:http";

const CATEGORIES = ["Electronics", "Books", "Clothing", "Sports", "Home", "Garden", "Toys", "Food",
  "Beauty", "Automotive", "Music", "Movies", "Games", "Office", "Health", "Pets", "Travel", "Tools",
  "Jewelry", "Baby"];
const products = Array.from({ length: 100_000 }, (_, index) => ({
  id: index + 1,
  sku: `SKU-${String(index + 1).padStart(6, "0")}`,
  name: `Item ${index + 1} of ${CATEGORIES[index % 20]}`,
  category: CATEGORIES[index % 20],
  price: 1 + (index % 99_900) / 100,
  stock: index % 501,
  rating: 1 + (index % 40) / 10,
  description: "A product of the catalogue, with a sentence about it.",
}));

function search(query) {
  const category = query.get("category");
  const [least, most] = [Number(query.get("min_price")), Number(query.get("max_price"))];
  const found = products
    .filter((each) => each.category === category && each.price >= least && each.price <= most)
    .sort((one, other) => one.price - other.price);
  const limit = Number(query.get("limit"));
  return { category, total_found: found.length, products: found.slice(0, limit) };
}

function calculate({ user_id, items }) {
  const price = ({ product_id, quantity }) => products[product_id - 1].price * quantity;
  const subtotal = items.map(price).reduce((sum, each) => sum + each, 0);
  const total = Math.round(subtotal * 1.085 * 100) / 100;
  return { order_id: `ORD-${user_id}`, user_id, total, items_count: items.length };
}

const answers = new Map();

function answer(path) {
  const url = new URL(path, "http://localhost");
  const id = Number(url.pathname.split("/")[2]);
  return url.pathname === "/products/search" ? search(url.searchParams) : products[id - 1];
}

createServer(async (request, response) => {
  response.setHeader("Content-Type", "application/json");
  if (request.method === "POST") {
    const pieces = await request.toArray().catch(() => null);
    if (pieces === null) return; // the client has left
    response.end(JSON.stringify(calculate(JSON.parse(Buffer.concat(pieces)))));
    return;
  }
  if (!answers.has(request.url)) answers.set(request.url, JSON.stringify(answer(request.url)));
  response.end(answers.get(request.url));
}).listen(Number(process.argv[2]), "127.0.0.1");
