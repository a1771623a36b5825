//! Where a server's own requests are answered: questions to the user, samples of a model, roots.
//!
//! What the host lends is announced in the handshake, and nothing else is answered.

use std::time::Duration;

use haft::future::BoxFuture;
use rmcp::model::{ErrorCode, ErrorData, ServerNotification, TASKS_EXTENSION_ID};
use serde_json::{Value, json};
use url::Url;

use super::form;
use super::session::{ClientSide, FinishedRequest, unsupported_method};
use super::watched_resources::WatchedResources;
use crate::host::{CarrierInfo, CompletedRequest, HostServices};
use crate::limits::LOG_LINE_CHARS_MAX;
use crate::text;
use crate::transport::{ServerLog, field_order};

/// The protocol's code for a user who rejected a sampling request.
const REJECTED: ErrorCode = ErrorCode(-1);

/// Answers for one server.
pub(crate) struct ServerRequests {
    pub(crate) server: String,
    pub(crate) carrier: CarrierInfo,
    pub(crate) host: HostServices,
    pub(crate) may_sample: bool,
    pub(crate) log: ServerLog,
    pub(crate) watched: WatchedResources,
}

impl ServerRequests {
    async fn elicit(&self, params: &Value) -> Result<Value, ErrorData> {
        let Some(asker) = &self.host.asker else { return Err(unsupported_method("elicitation/create")) };
        let message = text::display_text(params["message"].as_str().unwrap_or_default(), 2_000);
        let asked = match params["mode"].as_str() {
            None | Some("form") => {
                let order = field_order::noted_field_order(params);
                form::ask_form(&**asker, &self.server, &message, &params["requestedSchema"], &order).await
            }
            Some("url") => form::ask_to_open(&**asker, &self.server, &message, &params["url"]).await,
            Some(mode) => {
                Err(format!("elicitation of the mode `{}` is not known here", text::display_line(mode, 40)))
            }
        };
        asked.map_err(|message| ErrorData::invalid_params(message, None))
    }

    async fn sample(&self, params: Value) -> Result<Value, ErrorData> {
        match &self.host.sampler {
            Some(sampler) if self.may_sample => {
                let sampled = sampler.sample(&self.server, params).await;
                sampled.map_err(|message| ErrorData::new(REJECTED, message, None))
            }
            _ => Err(unsupported_method("sampling/createMessage")),
        }
    }

    fn log_message(&self, level: &Value, data: &Value) {
        let level = level.as_str().unwrap_or("info");
        let data = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
        let line = text::display_line(&format!("[{level}] {data}"), LOG_LINE_CHARS_MAX);
        self.log.add(format!("{line}\n").as_bytes());
    }

    fn roots(&self) -> Value {
        let root = |path: &std::path::PathBuf| {
            let uri = Url::from_directory_path(path).ok()?;
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            Some(
                json!({"uri": uri.as_str().trim_end_matches('/'), "name": name.unwrap_or_else(|| "/".to_owned())}),
            )
        };
        json!({"roots": self.host.roots.iter().filter_map(root).collect::<Vec<_>>()})
    }
}

impl ClientSide for ServerRequests {
    fn capabilities(&self) -> Value {
        let mut can = json!({"roots": {}, "extensions": {TASKS_EXTENSION_ID: {}}});
        if self.host.asker.is_some() {
            can["elicitation"] = json!({"form": {}, "url": {}});
        }
        if self.may_sample && self.host.sampler.is_some() {
            can["sampling"] = json!({});
        }
        can
    }

    fn answer<'a>(&'a self, method: &'a str, params: Value) -> BoxFuture<'a, Result<Value, ErrorData>> {
        Box::pin(async move {
            match method {
                "roots/list" => Ok(self.roots()),
                "elicitation/create" => self.elicit(&params).await,
                "sampling/createMessage" => self.sample(params).await,
                other => Err(unsupported_method(other)),
            }
        })
    }

    fn asked(&self, over: &FinishedRequest<'_>) {
        let Some(observer) = &self.host.observer else { return };
        observer.asked(&CompletedRequest {
            server: &self.server,
            carrier: &self.carrier,
            revision: over.revision,
            method: over.method,
            name: over.name,
            uri: over.uri,
            took: over.took,
            error: over.error.as_deref(),
        });
    }

    fn ended(&self, revision: &str, after: Duration) {
        if let Some(observer) = &self.host.observer {
            observer.ended(&self.carrier, revision, after);
        }
    }

    #[expect(deprecated, reason = "servers of the revisions with a handshake send log messages")]
    fn receive(&self, notification: &ServerNotification) {
        match notification {
            ServerNotification::ResourceUpdatedNotification(updated) => {
                self.watched.updated(&updated.params.uri);
            }
            ServerNotification::LoggingMessageNotification(logged) => {
                let level = serde_json::to_value(logged.params.level).unwrap_or_default();
                self.log_message(&level, &logged.params.data);
            }
            // One with a level that the SDK doesn't know.
            ServerNotification::CustomNotification(custom) if custom.method == "notifications/message" => {
                let params = custom.params.as_ref().unwrap_or(&Value::Null);
                self.log_message(&params["level"], &params["data"]);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct Model;

    impl crate::SamplingHandler for Model {
        fn sample<'a>(&'a self, server: &'a str, _: Value) -> BoxFuture<'a, Result<Value, String>> {
            Box::pin(async move {
                Ok(json!({"model": "m", "role": "assistant", "content": {"type": "text", "text": server}}))
            })
        }
    }

    fn desk(host: HostServices, may_sample: bool) -> ServerRequests {
        let carrier = crate::ServerTransport::stdio("x", [""; 0]).carrier();
        let (log, watched) = (ServerLog::default(), WatchedResources::default());
        ServerRequests { server: "s".into(), carrier, host, may_sample, log, watched }
    }

    #[tokio::test]
    async fn only_what_was_lent_is_announced_and_answered() {
        let plain = desk(HostServices::new("/work dir/a"), true);
        assert_eq!(plain.capabilities(), json!({"roots": {}, "extensions": {TASKS_EXTENSION_ID: {}}}));
        assert_eq!(
            plain.answer("roots/list", json!({})).await.unwrap(),
            json!({"roots": [{"uri": "file:///work%20dir/a", "name": "a"}]})
        );
        for method in ["elicitation/create", "sampling/createMessage", "tools/call", ""] {
            assert_eq!(plain.answer(method, json!({})).await.unwrap_err().code.0, -32601, "{method}");
        }
        let host = HostServices::new("/").with_sampler(Arc::new(Model));
        let forbidden = desk(host.clone(), false);
        assert!(forbidden.answer("sampling/createMessage", json!({})).await.is_err());
        assert!(forbidden.capabilities().get("sampling").is_none());
        let sampled = desk(host, true).answer("sampling/createMessage", json!({})).await.unwrap();
        assert_eq!(sampled["content"]["text"], "s");
    }
}
