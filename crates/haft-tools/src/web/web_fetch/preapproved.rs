//! Hosts whose pages are fetched without a question: documents of languages and tools, where nobody can leave
//! a page of their own. No host is on it that stores what its users send (gists, pastes, packages' pages),
//! since such a page can say anything, and an address sent there can carry anything away.

/// The hosts, sorted. Exact names: nothing below them is meant.
pub const PREAPPROVED: &[&str] = &[
    "cppreference.com",
    "developer.apple.com",
    "developer.mozilla.org",
    "doc.rust-lang.org",
    "docs.anthropic.com",
    "docs.aws.amazon.com",
    "docs.djangoproject.com",
    "docs.docker.com",
    "docs.oracle.com",
    "docs.python.org",
    "docs.swift.org",
    "dotnet.microsoft.com",
    "en.cppreference.com",
    "fastapi.tiangolo.com",
    "git-scm.com",
    "go.dev",
    "kotlinlang.org",
    "kubernetes.io",
    "learn.microsoft.com",
    "man7.org",
    "modelcontextprotocol.io",
    "nextjs.org",
    "nodejs.org",
    "numpy.org",
    "pandas.pydata.org",
    "pytorch.org",
    "react.dev",
    "redis.io",
    "ruby-doc.org",
    "serde.rs",
    "sqlite.org",
    "tokio.rs",
    "vuejs.org",
    "www.postgresql.org",
    "www.sqlite.org",
    "www.typescriptlang.org",
    "www.w3.org",
];

#[cfg(test)]
mod tests {
    use haft_net::host::HostRule;

    use super::*;

    #[test]
    fn the_table_is_sorted_and_can_be_read() {
        assert!(PREAPPROVED.is_sorted());
        for host in PREAPPROVED {
            assert_eq!(host.parse::<HostRule>().unwrap().to_string(), *host);
        }
    }
}
