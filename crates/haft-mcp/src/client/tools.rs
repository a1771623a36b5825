//! Tools on the connected servers of a session, one file each. The servers' own tools are in `tool.rs`.

mod get_prompt;
mod list_prompts;
mod list_resources;
mod read_resource;
pub(super) mod wait_for_servers;

use haft::effects::table::ConcurrencyClass;
use haft::tool::{AnyTool, IntoTools as _, InvalidTool};
use haft::{Effects, ToolSpec};

use self::get_prompt::GetPrompt;
use self::list_prompts::ListPrompts;
use self::list_resources::ListResources;
use self::read_resource::ReadResource;
use self::wait_for_servers::WaitForServers;
use super::catalogue::ServerCatalogue;

/// The tools, over the servers of a session.
pub(crate) fn build_tools(catalogue: &ServerCatalogue) -> Vec<AnyTool> {
    let built_in = |made: Result<Vec<AnyTool>, InvalidTool>| made.expect("our own tools can be registered");
    [
        built_in(GetPrompt(catalogue.clone()).into_tools()),
        built_in(ListPrompts(catalogue.clone()).into_tools()),
        built_in(ListResources(catalogue.clone()).into_tools()),
        built_in(ReadResource(catalogue.clone()).into_tools()),
        built_in(WaitForServers(catalogue.0.to_vec()).into_tools()),
    ]
    .concat()
}

fn tool_spec(name: &'static str, aliases: [&'static str; 2]) -> ToolSpec {
    let [one, other] = aliases;
    ToolSpec::new(name).alias(one).alias(other).group("mcp").listed_class(ConcurrencyClass::ReadOnly)
}

/// Listing what a server has is looking at that server.
fn looks_at(server: Option<&str>) -> Effects {
    Effects::reads_state(server.map_or("mcp".to_owned(), |server| format!("mcp:{server}")))
}
