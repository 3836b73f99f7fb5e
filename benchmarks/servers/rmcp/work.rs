//! An echo, a hash, a wait and a large result, served by rmcp on stdio.

use std::error::Error;
use std::time::Duration;

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::transport::stdio;
use rmcp::{schemars, tool, tool_handler, tool_router, ServerHandler, ServiceExt};
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest, Sha256};

const ROW: &str = "A line of a large result, which has sixty-four characters, yes.\n";
static DATA: [u8; 1 << 20] = [0; 1 << 20];

#[derive(Deserialize, JsonSchema)]
struct Said {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Pause {
    milliseconds: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Size {
    count: usize,
}

#[derive(Clone)]
struct Work {
    tool_router: ToolRouter<Self>,
}

#[tool_router]
impl Work {
    #[tool(description = "Return the text.")]
    async fn echo(&self, Parameters(said): Parameters<Said>) -> String {
        said.text
    }

    #[tool(description = "Keep the processor busy: hash a mebibyte.")]
    async fn digest(&self) -> String {
        let sum = Sha256::digest(DATA);
        sum.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[tool(description = "Wait, as for a database.")]
    async fn wait(&self, Parameters(pause): Parameters<Pause>) -> String {
        tokio::time::sleep(Duration::from_millis(pause.milliseconds)).await;
        "done".to_string()
    }

    #[tool(description = "Return so many lines.")]
    async fn rows(&self, Parameters(size): Parameters<Size>) -> String {
        ROW.repeat(size.count)
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Work {}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let work = Work {
        tool_router: Work::tool_router(),
    };
    work.serve(stdio()).await?.waiting().await?;
    Ok(())
}
