//! Resources in memory.

use std::sync::Arc;

use crate::content::Content;
use crate::future::BoxFuture;
use crate::ports::{Resource, ResourceError, Resources};

/// A [`Resources`] over a list.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use haft::Content;
/// use haft::ports::Resources;
/// use haft::testing::MemoryResources;
///
/// let resources = MemoryResources::new().with("docs", "doc://a", "The first", "text of a");
/// assert_eq!(resources.list(None).await.unwrap()[0].name, "The first");
/// assert_eq!(resources.read("docs", "doc://a").await.unwrap(), [Content::text("text of a")]);
/// let missing = resources.read("docs", "doc://b").await.unwrap_err();
/// assert_eq!(missing.to_string(), "server `docs` has no resource `doc://b`");
/// # }
/// ```
#[derive(Clone, Default)]
pub struct MemoryResources(Arc<Vec<(Resource, Vec<Content>)>>);

impl MemoryResources {
    /// No resources.
    pub fn new() -> MemoryResources {
        MemoryResources::default()
    }

    /// Adds a text.
    #[must_use]
    pub fn with(self, server: &str, uri: &str, name: &str, text: &str) -> MemoryResources {
        let resource = Resource {
            server: server.to_owned(),
            uri: uri.to_owned(),
            name: name.to_owned(),
            description: None,
            media_type: Some("text/plain".to_owned()),
        };
        self.with_content(resource, vec![Content::text(text)])
    }

    /// Adds anything.
    #[must_use]
    pub fn with_content(mut self, resource: Resource, content: Vec<Content>) -> MemoryResources {
        Arc::make_mut(&mut self.0).push((resource, content));
        self
    }

    fn known(&self, server: &str) -> Result<(), ResourceError> {
        let known = self.0.iter().any(|(resource, _)| resource.server == server);
        known.then_some(()).ok_or_else(|| ResourceError { message: format!("there is no server `{server}`") })
    }
}

impl Resources for MemoryResources {
    fn list<'a>(&'a self, server: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Resource>, ResourceError>> {
        let wanted = |resource: &&Resource| server.is_none_or(|server| resource.server == server);
        let all = self.0.iter().map(|(resource, _)| resource);
        let listed = server.map_or(Ok(()), |server| self.known(server));
        Box::pin(std::future::ready(listed.map(|()| all.filter(wanted).cloned().collect())))
    }

    fn read<'a>(
        &'a self,
        server: &'a str,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Content>, ResourceError>> {
        let content = self.known(server).and_then(|()| {
            let found =
                self.0.iter().find(|(resource, _)| (&*resource.server, &*resource.uri) == (server, uri));
            found.map(|(_, content)| content.clone()).ok_or_else(|| ResourceError {
                message: format!("server `{server}` has no resource `{uri}`"),
            })
        });
        Box::pin(std::future::ready(content))
    }
}
