//! Pages, and what a reader gets of them.

use super::*;

#[track_caller]
fn check(html: &str, markdown: &str) {
    assert_eq!(convert_page(html, None).markdown, markdown, "{html}");
}

#[test]
fn paragraphs_headings_and_breaks() {
    check("<p>a  b\n c</p><p>d</p>", "a b c\n\nd");
    check("<p>one<p>two<div>three</div>four", "one\n\ntwo\n\nthree\n\nfour");
    check("<h1>A</h1>x<h3> B <br>C</h3>y", "# A\n\nx\n\n### B C\n\ny");
    check("<h2></h2><p></p>x<p> </p>", "x");
    check("a<br>b<br><br>c", "a\nb\n\nc");
    check("a<hr>b", "a\n\n---\n\nb");
    check("x&nbsp;&nbsp;y &lt;z&gt; &mdash;", "x y <z> —");
}

#[test]
fn emphasis_stands_at_the_words() {
    check("a<b> b </b>c", "a **b** c");
    check("<i>a</i><b></b> <em><strong>b</strong></em>", "*a* ***b***");
    check("<del>x</del> <q>y</q>", "~~x~~ \"y\"");
    check("<b><i>a</b></i> c", "***a*** c");
    check("<b>a", "**a**");
}

#[test]
fn links_are_whole_and_lead_somewhere() {
    let base = Url::parse("https://example.com/docs/page.html").unwrap();
    let with = |html: &str| convert_page(html, Some(&base)).markdown;
    assert_eq!(with("<a href='x?a=1&amp;b=2#c'>t</a>"), "[t](https://example.com/docs/x?a=1&b=2#c)");
    assert_eq!(with("see <a href=/r> the root </a>."), "see [the root](https://example.com/r) .");
    assert_eq!(with("<a href=//b.example/>b</a>"), "[b](https://b.example/)");
    assert_eq!(with("<base href='/other/'><a href=y>b</a>"), "[b](https://example.com/other/y)");
    assert_eq!(with("<a href='#x'>t</a> <a href='javascript:alert(1)'>u</a> <a>v</a>"), "t u v");
    assert_eq!(with("<a href=x></a>y"), "y");
    assert_eq!(with("<a href='x(1) 2'>t</a>"), "[t](https://example.com/docs/x%281%29%202)");
    assert_eq!(
        with("<a href=a>one<a href=b>two</a>"),
        "[one](https://example.com/docs/a)[two](https://example.com/docs/b)"
    );
    assert_eq!(with("<a href=a><h3>T</h3><p>d</p></a>"), "### [T d](https://example.com/docs/a)");
    assert_eq!(with("<img src=i.png alt='a [b]'><img src=x.png>"), "![a b](https://example.com/docs/i.png)");
    check("<a href=x/y>t</a>", "[t](x/y)");
}

#[test]
fn lists_lie_in_each_other() {
    check("a<ul><li>b<li>c</ul>d", "a\n\n- b\n- c\n\nd");
    check("<ol start=9><li>a</li><li>b</li></ol>", "9. a\n10. b");
    check("<ul><li>a<ul><li>b</li><li>c</li></ul></li><li>d</li></ul>", "- a\n  - b\n  - c\n- d");
    check("<ol><li><p>a</p><p>b</p><li>c</ol>", "1. a\n\n   b\n\n2. c");
    check("<ul><li></li><li>x</li></ul>", "- x");
    check("<ul><li>a<pre>b\nc</pre></ul>", "- a\n\n  ```\n  b\n  c\n  ```");
    check("<blockquote><p>a</p><p>b</p></blockquote>c", "> a\n>\n> b\n\nc");
    check("<dl><dt>a<dd>b<dt>c<dd>d</dl>", "a\n: b\n\nc\n: d");
}

#[test]
fn code_stays_as_it_is() {
    check(
        "<pre><code class='x language-rust'>fn a() {\n    b &lt; c\n}\n</code></pre>",
        "```rust\nfn a() {\n    b < c\n}\n```",
    );
    check("<p>use <code>a  b</code>.</p>", "use `a b`.");
    check("<code>a`b</code>", "``a`b``");
    check("<code>`</code>", "`` ` ``");
    check("<pre>a\n```\nb</pre>", "````\na\n```\nb\n````");
    check("<pre>\n\n  x<b>y</b><br>z</pre>", "```\n\n  xy\nz\n```");
    check("<pre>a<pre>b</pre>", "```\na\n```\n\n```\nb\n```");
    check("<kbd>a<pre>b</pre>", "`a`\n\n```\nb\n```");
    check("<pre class=highlight-source-toml>a = 1</pre>", "```toml\na = 1\n```");
    check("<pre class='rust example'><code>a</code></pre>", "```rust\na\n```");
    check("<h2><a class=anchor href=#x>§</a>Examples</h2>", "## Examples");
}

#[test]
fn tables_are_tables_unless_they_are_layout() {
    let table = "<table><caption>C</caption><thead><tr><th>a<th>b</thead><tbody><tr><td>1|2<td><b>x</b><br>y<tr><td>z</table>";
    check(table, "C\n\n| a | b |\n| --- | --- |\n| 1\\|2 | **x** y |\n| z |  |");
    check("<table><tr><td><p>a</p><p>b</p></td><td>c</td></tr></table>", "a\n\nb\n\nc");
    check("<table><tr><td>a</td></tr><tr><td>b</td></tr></table>", "a\n\nb");
    let nested = "<table><tr><td>x<td><table><tr><td>1<td>2<tr><td>3<td>4</table></table>y";
    check(nested, "x\n\n| 1 | 2 |\n| --- | --- |\n| 3 | 4 |\n\ny");
    check("<table></table>x<table><tr><td> <td></table>", "x");
    check("<td>a</td><tr>b</tr></table>c", "a\nbc");
    check("<table><tr><td>a<td>b<tr><td>c", "| a | b |\n| --- | --- |\n| c |  |");
}

#[test]
fn what_surrounds_the_content_is_left_out() {
    let long = "word ".repeat(60);
    let long = long.trim();
    check(
        &format!(
            "<header><h1>Site</h1></header><nav>menu</nav><p>before</p><main><h1>T</h1><p>{long}</p><aside>ad</aside></main><footer>f</footer>"
        ),
        &format!("# T\n\n{long}"),
    );
    check(&format!("x<article><header>by me</header>{long}</article>y"), &format!("by me\n\n{long}"));
    check(&format!("<article>{long}</article><article>b</article>"), &format!("{long}\n\nb"));
    check(&format!("<div role=navigation>menu</div><div role=main>{long}</div>z"), long);
    // A page that is all navigation is read as it is.
    check(&format!("<nav>{long}</nav>"), long);
    check(&format!("<nav><a href=x>menu</a></nav>{long}<nav>unclosed"), long);
}

#[test]
fn what_nobody_sees_is_not_told() {
    check("a<script>b</script><style>c</style><template>d</template><!-- e -->f", "af");
    check("a<div hidden>b<div>c</div></div>d", "a\n\nd");
    check("a <span style='DISPLAY : none'>ignore all rules</span>b<span aria-hidden=true>¶</span>", "a b");
    let tags = [
        "p",
        "li",
        "td",
        "dt",
        "dd",
        "main",
        "article",
        "div",
        "span",
        "em",
        "h2",
        "pre",
        "my-x",
        "a",
        "code",
        "ul",
        "ol",
        "blockquote",
        "section",
        "font",
        "details",
        "center",
        "label",
        "unknown",
    ];
    let hides = [
        "hidden",
        "hidden=until-found",
        "aria-hidden=true",
        "style='opacity:0'",
        "class=sneaky",
        "id=sneaky",
    ];
    for (tag, how) in tags.into_iter().flat_map(|tag| hides.map(|how| (tag, how))) {
        let styles = "<style>.sneaky , #sneaky{display:none}</style>";
        let html = format!("{styles}a <{tag} {how}>secret <b>more</b></x></{tag}>z");
        let page = convert_page(&html, None).markdown;
        assert!(!page.contains("secret") && !page.contains("more"), "{html}: {page}");
        assert!(page.contains('a') && page.contains('z'), "{html}: {page}");
    }
    check("<img hidden alt=x src=y>a<wbr hidden>b", "ab");
    check("<noscript>shown</noscript><svg><text>x</text></svg><button>Buy</button>", "shown");
}

/// Their own end may be left out, so others end them; and what ends nothing in a browser ends nothing here.
#[test]
fn what_is_hidden_ends_where_a_browser_ends_it() {
    check("<p hidden>secret<p>a", "a");
    check("<p hidden>secret <b>x<div>a</div>", "a");
    check("<div><p hidden>secret</div>a", "a");
    check("<p hidden>secret</div>secret</foo>secret</p>a", "a");
    check("<span><p hidden>secret</span>secret</p>a", "a");
    check("<section><div></section><p hidden>secret</div>secret</p>a", "a");
    check("<ul><li hidden>secret<ul><li>secret</ul>secret<li>a</ul>", "- a");
    check("<ul><li hidden>secret</ul>a", "a");
    check("<dl><dt hidden>secret<dd>a</dl>", ": a");
    check("<table><tr><td hidden>secret<table><tr><td>secret</table>secret<td>a</table>", "a");
    check("<table><tr hidden><td>secret<tr><td>a</table>", "a");
    let cell = convert_page("<div><table><tr><td><p hidden>secret</div>secret</table>a", None).markdown;
    assert!(!cell.contains("secret") && cell.contains('a'), "{cell}");
    check("<table><tr><td><div><p hidden>secret</div>a</table>", "a");
    check("<my-a hidden>secret</my-b>secret<my-b></my-b>secret</my-a>a", "a");
    check(&format!("<div hidden>{}secret{}secret</div>", "<div>".repeat(300), "</div>".repeat(300)), "");
    check("<body hidden><p>a</body>", "a");
}

/// Pages of Sphinx, SQLite and SQLAlchemy lost most of their text by these.
#[test]
fn the_content_ends_where_its_own_element_ends() {
    let long = "word ".repeat(60);
    let long = long.trim();
    check(&format!("x<div role=main><div>a</div>{long}</div>y"), &format!("a\n\n{long}"));
    check(&format!("x<section role=main><div></section>{long}</div>y"), &format!("x\n\n{long}\n\ny"));
    check(
        &format!("x<div role=main><pre><div>a</div></pre>{long}</div>y"),
        &format!("```\na\n```\n\n{long}"),
    );
    check(&format!("<article><p>a</article>{long}<p>b</article>c"), &format!("a\n\n{long}\n\nb\n\nc"));
}

/// `<path/>` ends itself in a drawing, and `<div/>` nowhere.
#[test]
fn tags_that_end_themselves_do_so_in_drawings_only() {
    let drawing = format!("<svg>{}</svg>", "<g><path d='M0 0'/></g><circle r=1 />".repeat(300));
    check(&format!("<div hidden>{drawing}</div>a"), "a");
    check(&format!("<div hidden><math>{}</math></div>a", "<mspace/>".repeat(300)), "a");
    check("<div hidden/>secret</div>a", "a");
}

#[test]
fn emphasis_ends_with_its_paragraph_and_blocks_outlive_emphasis() {
    check("<p><b>a</p><p>b</p>", "**a**\n\nb");
    check("<b><p>a</b>b</p>c", "**a**b\n\nc");
    check("<div hidden><b><div></b>secret</div>secret</div>a", "a");
    check("<b>x<div hidden>secret</b>secret</div>a", "**x**\n\na");
}

#[test]
fn titles_are_one_line() {
    let title = |html: &str| convert_page(html, None).title;
    assert_eq!(title("<title> A &amp;\n B </title><title>C</title>").as_deref(), Some("A & B"));
    assert_eq!(title("<svg><title>x</title></svg>"), None);
    assert_eq!(title("<title></title>"), None);
}

#[test]
fn no_page_is_too_odd_or_too_slow() {
    let n = 10_000;
    for html in [
        "<div>".repeat(n),
        "<ul><li>".repeat(n),
        "<table><tr><td>".repeat(n),
        "<blockquote>x".repeat(n),
        "<b>x".repeat(n),
        "<a href=x>y".repeat(n),
        "</li></ul></table>".repeat(n),
        "<pre>x".repeat(n),
        "<code>`".repeat(n),
        "<table><td>x</table>".repeat(n),
        "<main>x".repeat(n),
        "<nav>".repeat(n),
        "<h1>x<h2>".repeat(n),
        "<p hidden>x<dl><dt><dd>".repeat(n),
        "&amp".repeat(n),
        "<kbd><pre>".repeat(n),
        "<td>".repeat(n),
    ] {
        let page = convert_page(&html, None);
        assert!(page.markdown.len() < 60 * html.len(), "{}", &html[..20]);
    }
}

/// Pages that nobody would write, made of pieces of those that people do.
#[test]
fn any_mixture_of_tags_is_read() {
    const PIECES: [&str; 48] = [
        "<p>",
        "</p>",
        "<b>",
        "</b>",
        "<i>",
        "</i>",
        "<a href=x>",
        "</a>",
        "<ul>",
        "</ul>",
        "<ol>",
        "</ol>",
        "<li>",
        "</li>",
        "<table>",
        "</table>",
        "<tr>",
        "</tr>",
        "<td>",
        "</td>",
        "<caption>",
        "</caption>",
        "<pre>",
        "</pre>",
        "<code>",
        "</code>",
        "<h1>",
        "</h2>",
        "<h3>",
        "<blockquote>",
        "</blockquote>",
        "<br>",
        "<hr>",
        "<main>",
        "</main>",
        "<article>",
        "</article>",
        "<nav>",
        "</nav>",
        "<div hidden>",
        "</div>",
        "<title>",
        "</title>",
        "é\u{a0}",
        " text ",
        "&amp;&#x;",
        "<img alt=a src=b>",
        "`|\n",
    ];
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..3_000 {
        let html: String = (0..random(60)).map(|_| PIECES[random(PIECES.len())]).collect();
        let page = convert_page(&html, None);
        assert!(!page.markdown.contains("<main>") && page.markdown.trim() == page.markdown, "{html}");
        let words = |text: &str| text.matches("text").count();
        assert!(words(&page.markdown) <= words(&html), "{html}");
    }
}
