//! Headers of the newest revision: they repeat what the body says, for those on the way who read no bodies, and have to agree with
//! it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::asker::{Asker, METHOD, NAME, VERSION};
use super::offer::InHeader;
use super::reply::{Refusal, RefusalKind};
use super::session::Session;
use super::wish::Params;

fn mismatch(words: String) -> Refusal {
    Refusal::new(RefusalKind::Code(-32020), words)
}

/// Whether the headers of a request say what its body says.
pub(super) fn headers_agree(asker: &Asker, method: &str, params: &Params) -> Result<(), Refusal> {
    let only = |name: &str| -> Result<Option<&str>, Refusal> {
        if asker.headers.get_all(name).iter().count() > 1 {
            return Err(mismatch(format!("the header `{name}` is there twice")));
        }
        Ok(asker.header(name))
    };
    let differs =
        |name: &str, what: &str| mismatch(format!("the header `{name}` has to be the same as {what}"));
    if only(VERSION)? != params.revision().and_then(Value::as_str) {
        return Err(differs(VERSION, "the revision in `_meta`"));
    }
    if only(METHOD)? != Some(method) {
        return Err(differs(METHOD, "the method"));
    }
    if let Some(name) = params.named(method)
        && only(NAME)?.and_then(decoded).as_deref() != Some(name)
    {
        return Err(differs(NAME, "the name or address in the parameters"));
    }
    Ok(())
}

/// The value of a header that may be written in base64.
fn decoded(header: &str) -> Option<String> {
    match header.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(packed) => String::from_utf8(BASE64_STANDARD.decode(packed).ok()?).ok(),
        None => Some(header.to_owned()),
    }
}

/// Whether the arguments of a tool that have to stand in headers do.
pub(super) async fn arguments_agree(
    asker: &Asker,
    session: &Session,
    params: &Params,
) -> Result<(), Refusal> {
    let (Some(name), Some(arguments)) = (params.named("tools/call"), params.arguments()) else {
        return Ok(());
    };
    let listing = session.offer().tools_now().await?;
    if !listing.has_in_headers() {
        return Ok(());
    }
    let in_headers = listing.in_headers(name);
    let Ok(arguments) = serde_json::from_str::<Value>(arguments.get()) else { return Ok(()) };
    for InHeader { header, path } in in_headers {
        let name = format!("mcp-param-{}", header.to_ascii_lowercase());
        let in_body = path.iter().try_fold(&arguments, |value, key| value.get(key)).and_then(written);
        let headers: Vec<_> = asker.headers.get_all(&name).iter().collect();
        let in_header = match headers.as_slice() {
            [] => None,
            [one] => {
                let text = one.to_str().ok().map(str::trim).and_then(decoded);
                Some(text.ok_or_else(|| mismatch(format!("the header `Mcp-Param-{header}` can't be read")))?)
            }
            _ => return Err(mismatch(format!("the header `Mcp-Param-{header}` is there twice"))),
        };
        if in_body != in_header {
            return Err(mismatch(format!(
                "the header `Mcp-Param-{header}` has to be the same as the argument `{}`",
                path.join(".")
            )));
        }
    }
    Ok(())
}

/// A value as it stands in a header; nothing for what can't.
fn written(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}
