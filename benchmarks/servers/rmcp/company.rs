//! The tools of the published comparison, served by rmcp over streamable HTTP.

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

use redis::aio::MultiplexedConnection;
use redis::AsyncCommands;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{schemars, tool, tool_handler, tool_router, ServerHandler};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

type Failure = Box<dyn Error + Send + Sync>;

const TOP: isize = 10;
const RECENT: isize = 5;

#[derive(Deserialize, JsonSchema)]
struct Search {
    category: String,
    min_price: f64,
    max_price: f64,
    limit: u32,
}

#[derive(Deserialize, JsonSchema)]
struct User {
    user_id: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Item {
    product_id: u32,
    quantity: u32,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Order {
    user_id: String,
    items: Vec<Item>,
}

#[derive(Serialize, Deserialize)]
struct Product {
    id: u32,
    sku: String,
    name: String,
    price: f64,
    rating: f64,
    #[serde(default)]
    popularity_rank: usize,
}

#[derive(Deserialize)]
struct Found {
    total_found: u32,
    products: Vec<Product>,
}

#[derive(Deserialize)]
struct Priced {
    order_id: String,
    total: f64,
}

#[derive(Clone)]
struct Shop {
    api: String,
    http: reqwest::Client,
    store: MultiplexedConnection,
    tool_router: ToolRouter<Self>,
}

#[tool_router]
impl Shop {
    async fn opened() -> Result<Self, Failure> {
        let store = redis::Client::open(env::var("COMPANY_REDIS")?)?;
        Ok(Self {
            api: env::var("COMPANY_API")?,
            http: reqwest::Client::new(),
            store: store.get_multiplexed_async_connection().await?,
            tool_router: Self::tool_router(),
        })
    }

    #[tool(description = "Search products by category and price.")]
    async fn search_products(
        &self,
        Parameters(wanted): Parameters<Search>,
    ) -> Result<String, String> {
        self.search(wanted).await.map_err(|error| error.to_string())
    }

    #[tool(description = "Show a cart and the last orders.")]
    async fn get_user_cart(&self, Parameters(who): Parameters<User>) -> Result<String, String> {
        self.cart(who).await.map_err(|error| error.to_string())
    }

    #[tool(description = "Order what is in a cart.")]
    async fn checkout(&self, Parameters(order): Parameters<Order>) -> Result<String, String> {
        self.order(order).await.map_err(|error| error.to_string())
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Shop {}

impl Shop {
    async fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        Ok(self
            .http
            .get(format!("{}{path}", self.api))
            .send()
            .await?
            .json()
            .await?)
    }

    async fn search(&self, wanted: Search) -> Result<String, Failure> {
        let path = format!(
            "/products/search?category={}&min_price={}&max_price={}&limit={}",
            wanted.category, wanted.min_price, wanted.max_price, wanted.limit
        );
        let mut store = self.store.clone();
        let (found, ranks) = tokio::join!(
            self.get::<Found>(&path),
            store.zrevrange::<_, Vec<String>>("bench:popular", 0, TOP - 1),
        );
        let popular = ranks?
            .iter()
            .filter_map(|member| member.split_once(':')?.1.parse().ok())
            .collect::<Vec<u32>>();
        let mut found = found?;
        for product in &mut found.products {
            let place = popular.iter().position(|id| *id == product.id);
            product.popularity_rank = place.map_or(0, |index| index + 1);
        }
        Ok(json!({
            "category": wanted.category,
            "total_found": found.total_found,
            "products": found.products,
            "top10_popular_ids": popular,
        })
        .to_string())
    }

    async fn cart(&self, who: User) -> Result<String, Failure> {
        let mut store = self.store.clone();
        let cart: HashMap<String, String> =
            store.hgetall(format!("bench:cart:{}", who.user_id)).await?;
        let items = serde_json::from_str::<Vec<Item>>(cart.get("items").ok_or("no cart")?)?;
        let total = cart.get("total").ok_or("no total")?.parse::<f64>()?;
        let path = format!(
            "/products/{}",
            items.first().ok_or("an empty cart")?.product_id
        );
        let (shown, history) = tokio::join!(
            self.get::<Value>(&path),
            store.lrange::<_, Vec<String>>(format!("bench:history:{}", who.user_id), 0, RECENT - 1),
        );
        shown?;
        let history = history?
            .iter()
            .map(|each| serde_json::from_str(each))
            .collect::<Result<Vec<Value>, _>>()?;
        Ok(json!({
            "user_id": who.user_id,
            "cart": {"items": items, "item_count": items.len(), "estimated_total": total},
            "recent_history": history,
        })
        .to_string())
    }

    async fn order(&self, order: Order) -> Result<String, Failure> {
        let number = order
            .user_id
            .split_once('-')
            .ok_or("not a user")?
            .1
            .parse::<u32>()?
            % 100;
        let first = order.items.first().ok_or("nothing is ordered")?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let written = json!({
            "order_id": format!("ORD-{}-{now}", order.user_id),
            "items": order.items,
        });
        let mut store = self.store.clone();
        let mut pipe = redis::pipe();
        pipe.incr(format!("bench:ratelimit:user-{number:05}"), 1)
            .rpush(
                format!("bench:history:{}", order.user_id),
                written.to_string(),
            )
            .ignore()
            .zincr("bench:popular", format!("product:{}", first.product_id), 1)
            .ignore();
        let price = async {
            let url = format!("{}/cart/calculate", self.api);
            self.http
                .post(url)
                .json(&order)
                .send()
                .await?
                .json::<Priced>()
                .await
        };
        let (priced, count) = tokio::join!(price, pipe.query_async::<(u64,)>(&mut store));
        let (priced, (count,)) = (priced?, count?);
        Ok(json!({
            "order_id": priced.order_id,
            "user_id": order.user_id,
            "total": priced.total,
            "items_count": order.items.len(),
            "rate_limit_count": count,
            "status": "confirmed",
        })
        .to_string())
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let port = env::args().nth(1).ok_or("give a port")?.parse::<u16>()?;
    let shop = Shop::opened().await?;
    let service = StreamableHttpService::new(
        move || Ok(shop.clone()),
        LocalSessionManager::default().into(),
        StreamableHttpServerConfig::default(),
    );
    let router = axum::Router::new().nest_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    Ok(axum::serve(listener, router).await?)
}
