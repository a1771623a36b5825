//! Hosts in the words of a command: addresses, `host:path`, git remotes, container images.
//!
//! A host that the words don't name (`curl $U`, `git fetch origin`) is reported as unknown, with the
//! reason.

use haft::effects::AccessKind;

use super::examine::{Finding, literal_word};
use super::model::{AddressForm, PathExtent};
use super::{Word, marks};

/// Adds the hosts and files that a word of this form names.
pub(crate) fn add_connection(
    form: AddressForm,
    word: &Word,
    access: AccessKind,
    findings: &mut Vec<Finding>,
) {
    let mut found = AddressFindings { access, findings };
    match form {
        AddressForm::Address => found.add_address(word),
        AddressForm::Host => match word.literal().and_then(remote_host) {
            Some(host) if host.parse::<u16>().is_err() && !word.plain().contains("://") => {
                found.add_text(host)
            }
            _ => found.add_address(word),
        },
        AddressForm::Copy => found.add_copy(word),
        AddressForm::Url => {
            if word.prefix().contains("://") || word.prefix().is_empty() && word.literal().is_none() {
                found.add_address(word);
            } else if let Some((_, host)) = word.literal().and_then(|text| text.split_once("host=")) {
                found.add_text(host.split(' ').next().unwrap_or(""));
            }
        }
        AddressForm::UrlOrFolder => {
            if word.literal().is_none_or(|text| text.contains("://")) {
                found.add_address(word);
            }
        }
        AddressForm::Remote(named) => found.add_remote(word, named),
        AddressForm::Image(usual) => found.add_image(word, usual),
        AddressForm::Mapping(with_port) => found.add_mapping(word, with_port),
        AddressForm::Socket => found.add_socket(word),
    }
}

struct AddressFindings<'f> {
    access: AccessKind,
    findings: &'f mut Vec<Finding>,
}

impl AddressFindings<'_> {
    fn add_host(&mut self, host: String) {
        let known =
            |finding: &Finding| matches!(finding, Finding::Connect { host: other, .. } if *other == host);
        if !self.findings.iter().any(known) {
            self.findings.push(Finding::Connect { host, access: self.access });
        }
    }

    fn add_unknown(&mut self, why: String) {
        self.findings.push(Finding::UnknownHost(why));
    }

    fn add_file(&mut self, path: &str) {
        self.findings.push(Finding::Read { word: literal_word(path), extent: PathExtent::File });
    }

    /// Adds an address, or a host alone.
    fn add_address(&mut self, word: &Word) {
        match word {
            Word::Literal(text) => self.add_text(text),
            Word::Dynamic(open) => {
                // An expansion after the host doesn't matter: `https://x.io/$path`.
                let start = open.shape.split(|c| c <= marks::GLOB).next().unwrap_or("");
                let rest = start.split_once("://").map_or(start, |(_, rest)| rest);
                let ended = rest.contains(['/', '?', '#']) && !rest.starts_with(['/', '.']);
                if ended { self.add_text(start) } else { self.add_hidden(word) }
            }
        }
    }

    fn add_hidden(&mut self, word: &Word) {
        self.add_unknown(format!("which host `{}` is, is known only when it runs", word.plain()));
    }

    fn add_text(&mut self, text: &str) {
        if let Some(path) = text.strip_prefix("file://") {
            return self.add_file(path.strip_prefix("localhost").unwrap_or(path));
        }
        match host_of(text) {
            Some(host) => self.add_host(host),
            None => self.add_unknown(format!("which host `{text}` is can't be read")),
        }
    }

    /// Adds `[user@]host:path`, an address, or a local file.
    fn add_copy(&mut self, word: &Word) {
        let text = word.prefix();
        if text.contains("://") {
            return self.add_address(word);
        }
        let pattern = word.plain().starts_with(['~', '*', '?']);
        match (word.literal(), remote_host(text)) {
            (_, Some(host)) => self.add_text(host),
            // `$x:path` and `$x` may be anything.
            (None, None) if text.is_empty() && !pattern => self.add_hidden(word),
            _ => {}
        }
    }

    /// Adds a URL, `host:path`, a folder, or otherwise the name of a remote.
    fn add_remote(&mut self, word: &Word, named: bool) {
        let text = word.prefix();
        if let Some(path) = word.literal().and_then(|text| text.strip_prefix("file://")) {
            return self.add_file(path);
        }
        if text.contains("::") {
            return self.add_unknown(format!("`{}` is a command that makes the connection", word.plain()));
        }
        if text.contains("://") {
            return self.add_address(word);
        }
        match (word.literal(), remote_host(text)) {
            (None, None) => self.add_hidden(word),
            (_, Some(host)) => self.add_text(host),
            (Some(text), None) if named && !text.starts_with(['/', '.', '~']) => {
                self.add_unknown(format!("the configuration names the host of the remote `{text}`"));
            }
            (Some(text), None) => self.add_file(text),
        }
    }

    /// Adds the registry of an image.
    fn add_image(&mut self, word: &Word, usual: &str) {
        let Some(text) = word.literal() else { return self.add_hidden(word) };
        let first = text.split('/').next().unwrap_or(text);
        let registry = first.contains(['.', ':']) || first == "localhost";
        if registry && (text.contains('/') || !text.contains(':')) {
            self.add_text(first)
        } else {
            self.add_host(usual.to_owned())
        }
    }

    /// Adds the host of `name:port:address` or `name:port:other:port`, which is the third part.
    fn add_mapping(&mut self, word: &Word, with_port: bool) {
        let parts = word.literal().map(|text| text.trim_start_matches('+'));
        let Some(rest) = parts.and_then(|text| text.splitn(3, ':').nth(2)) else {
            return self.add_unknown(format!("what `{}` names can't be read", word.plain()));
        };
        let other = if with_port { rest.rsplit_once(':').map_or(rest, |(host, _)| host) } else { rest };
        for one in other.split(',').filter(|one| !one.is_empty()) {
            let bare = one.contains(':') && !one.starts_with('[');
            self.add_text(&if bare { format!("[{one}]") } else { one.to_owned() });
        }
    }

    /// Adds the host of `TCP:host:port` and similar forms.
    fn add_socket(&mut self, word: &Word) {
        const KINDS: &[&str] = &["TCP", "UDP", "OPENSSL", "SSL", "SOCKS", "PROXY"];
        let text = word.prefix();
        let kind = text.split(':').next().unwrap_or("").to_ascii_uppercase();
        if !KINDS.iter().any(|start| kind.starts_with(start)) || kind.contains("LISTEN") {
            return;
        }
        match (word.literal(), text.split(':').nth(1)) {
            (Some(_), Some(host)) => self.add_text(host),
            _ => self.add_hidden(word),
        }
    }
}

/// Returns the host of an address with or without a scheme, if it is a plain name.
fn host_of(text: &str) -> Option<String> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    if text.contains(['\\', '{', '}', '\n', '\t', ' ']) {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if let Some(inside) = host.strip_prefix('[') {
        let (address, _) = inside.split_once(']')?;
        let plain =
            !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'));
        return plain.then(|| address.to_ascii_lowercase());
    }
    let port = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    let host = host.rsplit_once(':').filter(|(_, number)| port(number)).map_or(host, |(host, _)| host);
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let host = host.trim_end_matches('.');
    (!host.is_empty() && !host.starts_with('-') && host.bytes().all(plain)).then(|| host.to_ascii_lowercase())
}

/// Returns the host of `[user@]host:path` as `scp` and `git` parse it.
fn remote_host(text: &str) -> Option<&str> {
    let (front, _) = text.split_once(':')?;
    (!front.is_empty() && !front.contains('/')).then_some(front)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_addresses() {
        for (text, host) in [
            ("example.com", Some("example.com")),
            ("https://Example.com:8080/x?y", Some("example.com")),
            ("user:pass@x.io/y", Some("x.io")),
            ("https://good.io@evil.io/", Some("evil.io")),
            ("http://[::1]:80/", Some("::1")),
            ("http://x.io.", Some("x.io")),
            ("http://{a,b}.io", None),
            ("http://x.io\\@y.io", None),
            ("", None),
            ("-x", None),
        ] {
            assert_eq!(host_of(text).as_deref(), host, "{text}");
        }
    }
}
