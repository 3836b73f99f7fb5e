// The tools of the published comparison, served by the TypeScript SDK on Node's own HTTP server.

import { createServer } from "node:http";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { createClient } from "redis";
import * as z from "zod";

const api = process.env.COMPANY_API;
const redis = await createClient({ url: process.env.COMPANY_REDIS }).connect();

const read = async (path, options) => (await fetch(api + path, options)).json();

async function searchProducts({ category, min_price, max_price, limit }) {
  const query = new URLSearchParams({ category, min_price, max_price, limit });
  const [found, ranks] = await Promise.all([
    read(`/products/search?${query}`),
    redis.zRange("bench:popular", 0, 9, { REV: true }),
  ]);
  const popular = ranks.map((member) => Number(member.split(":")[1]));
  const products = found.products.map(({ id, sku, name, price, rating }) => ({
    id, sku, name, price, rating, popularity_rank: popular.indexOf(id) + 1,
  }));
  return { category, total_found: found.total_found, products, top10_popular_ids: popular };
}

async function getUserCart({ user_id }) {
  const cart = await redis.hGetAll(`bench:cart:${user_id}`);
  const items = JSON.parse(cart.items);
  const [, history] = await Promise.all([
    read(`/products/${items[0].product_id}`),
    redis.lRange(`bench:history:${user_id}`, 0, 4),
  ]);
  return {
    user_id,
    cart: { items, item_count: items.length, estimated_total: Number(cart.total) },
    recent_history: history.map((each) => JSON.parse(each)),
  };
}

async function checkout({ user_id, items }) {
  const number = String(Number(user_id.split("-")[1]) % 100).padStart(5, "0");
  const order = { order_id: `ORD-${user_id}-${Math.floor(Date.now() / 1000)}`, items };
  const headers = { "Content-Type": "application/json" };
  const [priced, count] = await Promise.all([
    read("/cart/calculate", { method: "POST", headers, body: JSON.stringify({ user_id, items }) }),
    redis.incr(`bench:ratelimit:user-${number}`),
    redis.rPush(`bench:history:${user_id}`, JSON.stringify(order)),
    redis.zIncrBy("bench:popular", 1, `product:${items[0].product_id}`),
  ]);
  return {
    order_id: priced.order_id,
    user_id,
    total: priced.total,
    items_count: items.length,
    rate_limit_count: count,
    status: "confirmed",
  };
}

const user = { user_id: z.string() };
const items = z.array(z.object({ product_id: z.number().int(), quantity: z.number().int() }));
const search = {
  category: z.string(), min_price: z.number(), max_price: z.number(), limit: z.number().int(),
};
const tools = [
  ["search_products", "Search products by category and price.", search, searchProducts],
  ["get_user_cart", "Show a cart and the last orders.", user, getUserCart],
  ["checkout", "Order what is in a cart.", { ...user, items }, checkout],
];

const handler = createMcpHandler(() => {
  const server = new McpServer({ name: "company", version: "1.0" });
  for (const [name, description, shape, run] of tools) {
    server.registerTool(name, { description, inputSchema: z.object(shape) }, async (given) => ({
      content: [{ type: "text", text: JSON.stringify(await run(given)) }],
    }));
  }
  return server;
});

createServer(toNodeHandler(handler)).listen(Number(process.argv[2]), "127.0.0.1");
