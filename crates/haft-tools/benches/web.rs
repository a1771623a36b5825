//! How fast pages become Markdown, and how fast one that was made to be slow does. `cargo xtask bench` runs
//! this and keeps what it prints.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::time::Instant;

const ROUNDS: usize = 15;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("| what | size | measured | MB/s | to reach |");
    println!("|---|---|---|---|---|");
    row("HTML to Markdown: a page of documents", &documents(300), "≥ 20");
    row("HTML to Markdown: tables", &tables(4_000), "≥ 20");
    row("HTML to Markdown: links and little text", &links(12_000), "≥ 20");
    row("HTML to Markdown: lists in lists without an end", &"<ul><li>x<blockquote>".repeat(40_000), "");
    row(
        "HTML to Markdown: a tag with half a million attributes",
        &format!("<a {}>x", "b=1 ".repeat(500_000)),
        "",
    );
}

fn row(what: &str, html: &str, goal: &str) {
    let base = url::Url::parse("https://example.com/docs/").ok();
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            let page = haft_tools::web::html::convert_page(std::hint::black_box(html), base.as_ref());
            std::hint::black_box(page);
            begin.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let (time, size) = (times[ROUNDS / 2], html.len() as f64 / 1e6);
    println!("| {what} | {size:.2} MB | {:.2} ms | {:.0} | {goal} |", time * 1e3, size / time);
}

fn documents(sections: usize) -> String {
    let mut page = String::from(
        "<!doctype html><html><head><title>Docs</title><style>p{color:red}</style></head><body><nav><ul>",
    );
    (0..200)
        .for_each(|n| page.push_str(&format!("<li class=\"item\"><a href=\"/page/{n}\">Page {n}</a></li>")));
    page.push_str("</ul></nav><main>");
    for n in 0..sections {
        page.push_str(&format!(
            "<section id=\"s{n}\" class=\"doc block wide\"><h2>Section {n} &mdash; reading</h2>\n<p>The <code>read</code> function \
             takes a <em>path</em> and returns the <a href=\"../io/struct.Error{n}.html\" title=\"an error\">error</a> or what was \
             read; see &ldquo;notes&rdquo; below, which say more about what happens when a file is not there and who is told.</p>\n\
             <pre><code class=\"language-rust\">fn main() -&gt; Result&lt;(), Error&gt; {{\n    let text = read(\"a{n}\")?;\n    \
             Ok(())\n}}\n</code></pre>\n<ul><li>first point with <strong>weight</strong></li><li>second point</li></ul>\n</section>\n"
        ));
    }
    page.push_str("</main><footer>about</footer></body></html>");
    page
}

fn tables(rows: usize) -> String {
    let cells = |n: usize| {
        format!(
            "<tr><td>{n}</td><td>name {n}</td><td><b>{}</b></td><td>some words about it</td></tr>\n",
            n * 7
        )
    };
    let body: String = (0..rows).map(cells).collect();
    format!(
        "<main><table><thead><tr><th>id<th>name<th>value<th>words</thead><tbody>{body}</tbody></table></main>"
    )
}

fn links(count: usize) -> String {
    let one = |n: usize| {
        format!(
            "<div class=\"row\"><a class=\"l\" href=\"item?id={n}&amp;x=1\">title of {n}</a> by <i>me</i></div>\n"
        )
    };
    format!("<body>{}</body>", (0..count).map(one).collect::<String>())
}
