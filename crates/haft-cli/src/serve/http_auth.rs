//! Who may come in over HTTP: addresses, hosts, origins, tokens.

use std::io::Read as _;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use haft::future::BoxFuture;
use haft_mcp::server::{
    HttpConfig, Principal, ProtectedResource, StaticTokens, TokenIntrospection, TokenVerifier, random_secret,
};
use haft_session::clients::{DEFAULT_CLIENT, ServeOauth, ServeSettings};

use super::args::ServeArgs;
use crate::UsageError;
use crate::output::one_line;

/// Begins the names of principals that an authorization server knows.
const BY_OAUTH: &str = "oauth:";
/// How many random bytes a token has that is made here.
const TOKEN_BYTES: usize = 32;
/// The longest file with a token.
const TOKEN_FILE_BYTES_MAX: u64 = 8 * 1024;
/// The shortest token that is taken from a file: what is shorter could be guessed.
const TOKEN_CHARS_MIN: usize = 16;

/// The address to listen on.
pub(super) fn parse_address(given: &str, allow_remote: bool) -> Result<SocketAddr, UsageError> {
    let whole = if given.parse::<u16>().is_ok() { format!("127.0.0.1:{given}") } else { given.to_owned() };
    let wrong = |why: &str| {
        UsageError(format!(
            "--http `{}`: {why}; give an address and port such as 127.0.0.1:7070, or a port",
            one_line(given)
        ))
    };
    let mut found = whole.to_socket_addrs().map_err(|error| wrong(&error.to_string()))?;
    let address = found.next().ok_or_else(|| wrong("it leads nowhere"))?;
    if !address.ip().is_loopback() && !allow_remote {
        return Err(UsageError(format!(
            "--http `{}`: other machines can reach {}; add --allow-remote if that is what you want, and put something with TLS before it",
            one_line(given),
            address.ip()
        )));
    }
    Ok(address)
}

/// How the server is reached, and the token that was made because nobody gave one.
pub(super) fn http_options(
    args: &ServeArgs,
    settings: &ServeSettings,
    home: Option<&Path>,
) -> Result<(HttpConfig, Option<String>), UsageError> {
    let mut tokens = StaticTokens::new();
    if let Some(file) = &args.token_file {
        tokens = tokens.with(&read_token(file, "--token-file")?, Principal::new(DEFAULT_CLIENT));
    }
    for client in &settings.clients {
        let principal = Principal::new(client.value.name.as_str());
        if let Some(digest) = client.value.digest() {
            tokens = tokens.with_digest(digest, principal);
        } else if let Some(file) = &client.value.token_file {
            let source = client.source.to_string();
            tokens = tokens.with(&read_token(&at_home(home, file, &source)?, &source)?, principal);
        }
    }
    let oauth = settings.oauth.as_ref();
    let oauth =
        oauth.map(|oauth| token_introspection(&oauth.value, &oauth.source.to_string(), home)).transpose()?;
    let mut made = None;
    if tokens.is_empty() && oauth.is_none() {
        let token = random_secret(TOKEN_BYTES)
            .ok_or_else(|| UsageError("this system has no random numbers".to_owned()))?;
        tokens = tokens.with(&token, Principal::new(DEFAULT_CLIENT));
        made = Some(token);
    }
    let mut http = plain_options(args, settings);
    if let Some((_, resource)) = &oauth {
        http = http.with_resource(resource.clone());
    }
    Ok((http.with_verifier(TokenCheck { tokens, oauth: oauth.map(|(check, _)| check) }), made))
}

/// The same without tokens, for sockets that only their owner opens.
pub(super) fn plain_options(args: &ServeArgs, settings: &ServeSettings) -> HttpConfig {
    let hosts = args.host.iter().chain(settings.hosts.iter().map(|host| &host.value));
    let origins = args.origin.iter().chain(settings.origins.iter().map(|origin| &origin.value));
    HttpConfig::new().with_hosts(hosts.cloned()).with_origins(origins.cloned())
}

/// Tokens that are known, then those of an authorization server.
struct TokenCheck {
    tokens: StaticTokens,
    oauth: Option<TokenIntrospection>,
}

impl TokenVerifier for TokenCheck {
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Principal>, String>> {
        Box::pin(async move {
            let known = self.tokens.verify(token).await?;
            match &self.oauth {
                Some(oauth) if known.is_none() => {
                    let found = oauth.verify(token).await?;
                    // Its names are not ours: nobody gets a client's view by being called as it is.
                    Ok(found.map(|mut principal| {
                        principal.name = format!("{BY_OAUTH}{}", principal.name).into();
                        principal
                    }))
                }
                _ => Ok(known),
            }
        })
    }
}

fn token_introspection(
    value: &ServeOauth,
    source: &str,
    home: Option<&Path>,
) -> Result<(TokenIntrospection, ProtectedResource), UsageError> {
    let url = |key: &str, text: &str| {
        let parsed = text.parse::<haft_mcp::server::Url>();
        parsed.map_err(|error| UsageError(format!("{source}: `{key}` is no address: {error}")))
    };
    let secret = match &value.client_secret_file {
        Some(file) => read_token(&at_home(home, file, source)?, source)?,
        None => String::new(),
    };
    let endpoint = url("introspection", &value.introspection)?;
    let local =
        endpoint.host_str().is_some_and(|host| host == "localhost" || host == "127.0.0.1" || host == "[::1]");
    if endpoint.scheme() != "https" && !(endpoint.scheme() == "http" && local) {
        return Err(UsageError(format!(
            "{source}: `introspection` has to be an address with https: tokens are sent there"
        )));
    }
    let check = TokenIntrospection::new(endpoint, value.client_id.as_str(), secret, value.resource.as_str())
        .map_err(|words| UsageError(format!("{source}: {words}")))?
        .with_required_scopes(value.scopes.iter().cloned());
    let mut resource = ProtectedResource::new(
        url("resource", &value.resource)?,
        value.authorization_servers.iter().cloned(),
    );
    resource.scopes = value.scopes.clone();
    Ok((check, resource))
}

fn at_home(home: Option<&Path>, file: &str, source: &str) -> Result<PathBuf, UsageError> {
    let path = match (file.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(file),
    };
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(UsageError(format!("{source}: `{}` has to be absolute or begin with `~/`", one_line(file))))
    }
}

/// The token in a file that nobody else can read.
fn read_token(file: &Path, source: &str) -> Result<String, UsageError> {
    let shown = one_line(&file.display().to_string());
    let wrong = |why: &str| UsageError(format!("{source}: the token in `{shown}` can't be used: {why}"));
    let unreadable = |error: std::io::Error| wrong(&error.to_string());
    let open = std::fs::File::open(file).map_err(unreadable)?;
    let found = open.metadata().map_err(unreadable)?;
    if !found.is_file() {
        return Err(wrong("it is no file"));
    }
    if found.mode() & 0o077 != 0 {
        return Err(wrong(&format!("others can read the file; `chmod 600 {shown}`")));
    }
    let mut text = String::new();
    open.take(TOKEN_FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    let token = text.trim();
    if text.len() as u64 > TOKEN_FILE_BYTES_MAX || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong("a token is one line of printable ASCII without spaces"));
    }
    if token.len() < TOKEN_CHARS_MIN {
        Err(wrong(&format!("it has fewer than {TOKEN_CHARS_MIN} characters")))
    } else {
        Ok(token.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_this_machine_is_listened_on_unless_asked_for() {
        for (given, expected) in [
            ("7070", Some("127.0.0.1:7070")),
            ("127.0.0.1:0", Some("127.0.0.1:0")),
            ("[::1]:80", Some("[::1]:80")),
            ("0.0.0.0:80", None),
            ("[::]:80", None),
            ("192.0.2.1:80", None),
            ("7070x", None),
            ("127.0.0.1", None),
            ("", None),
        ] {
            let found = parse_address(given, false).ok().map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{given}");
        }
        assert_eq!(parse_address("0.0.0.0:80", true).unwrap().to_string(), "0.0.0.0:80");
    }

    #[test]
    fn a_file_with_a_token_is_the_users_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        let of = |text: &str, mode: u32| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            read_token(&file, "--token-file").map_err(|UsageError(words)| words)
        };
        assert_eq!(of("0123456789abcdef\n", 0o600).as_deref(), Ok("0123456789abcdef"));
        assert!(of("0123456789abcdef\n", 0o640).unwrap_err().contains("chmod 600"));
        assert!(of("short\n", 0o600).unwrap_err().contains("fewer than 16"));
        assert!(of("0123456789 abcdef\n", 0o600).is_err());
        assert!(read_token(dir.path(), "--token-file").is_err());
    }
}
