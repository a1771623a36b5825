//! The headers of a remote server: those that its configuration has, and those that a command prints.

use std::collections::BTreeMap;
use std::path::Path;

use haft::ports::{ConfinementLevel, ProcessExit, ProcessRequest, Processes};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::config::RemoteTransport;
use crate::limits::HEADERS_TIMEOUT;

/// All headers, made anew for each connection.
///
/// # Errors
/// A header that can't be sent, or a command that failed, in words without any value.
pub(crate) async fn request_headers(
    remote: &RemoteTransport,
    processes: Option<&dyn Processes>,
    cwd: &Path,
) -> Result<HeaderMap, String> {
    let mut all = remote.headers.clone();
    if let Some(command) = &remote.headers_helper {
        let processes = processes.ok_or("`headersHelper` can't be run: this host starts no processes")?;
        all.extend(run_headers_helper(command, processes, cwd, remote.confinement).await?);
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &all {
        let bad = || format!("the header `{name}` can't be sent; a value is one line of plain characters");
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

async fn run_headers_helper(
    command: &str,
    processes: &dyn Processes,
    cwd: &Path,
    confinement: ConfinementLevel,
) -> Result<BTreeMap<String, String>, String> {
    let request = ProcessRequest::new(["sh", "-c", command], cwd)
        .with_confinement(confinement)
        .with_timeout(HEADERS_TIMEOUT);
    let outcome = processes.run(request).await.map_err(|error| format!("`headersHelper`: {error}"))?;
    match outcome.exit {
        ProcessExit::Code(0) => {}
        ProcessExit::TimedOut => {
            return Err(format!("`headersHelper` took longer than {} s", HEADERS_TIMEOUT.as_secs()));
        }
        exit => return Err(format!("`headersHelper` failed ({exit:?})")),
    }
    let printed = outcome.stdout.whole().unwrap_or_default();
    // What it printed may be a secret, so it isn't shown.
    serde_json::from_slice(printed)
        .map_err(|_| "`headersHelper` printed something else than a JSON object of strings".to_owned())
}

#[cfg(test)]
mod tests {
    use haft::testing::ScriptedProcesses;

    use super::*;

    #[tokio::test]
    async fn printed_headers_win_and_bad_ones_are_named_without_their_value() {
        let mut remote = RemoteTransport::new("http://x");
        remote.headers.insert("X-A".into(), "static".into());
        remote.headers_helper = Some("./h".into());
        let processes = ScriptedProcesses::new().prints(r#"{"X-A": "printed", "X-B": "b"}"#);
        let headers = request_headers(&remote, Some(&processes), Path::new("/")).await.unwrap();
        assert_eq!((&headers["x-a"], &headers["x-b"]), (&"printed".parse().unwrap(), &"b".parse().unwrap()));

        let failing = |processes: ScriptedProcesses| async move {
            let mut remote = RemoteTransport::new("http://x");
            remote.headers_helper = Some("./h".into());
            request_headers(&remote, Some(&processes), Path::new("/")).await.unwrap_err()
        };
        assert!(
            failing(ScriptedProcesses::new().prints(r#"["s3cret"]"#)).await.ends_with("object of strings")
        );
        assert!(failing(ScriptedProcesses::new().exits(3, "")).await.contains("failed"));
        let bad = failing(ScriptedProcesses::new().prints(r#"{"X": "s3\ncret"}"#)).await;
        assert!(bad.contains("`X`") && !bad.contains("cret"), "{bad}");
    }
}
