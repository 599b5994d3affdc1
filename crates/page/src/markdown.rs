//! The little of Markdown that the studies' texts use: headings, paragraphs, lists, tables, code, links, emphasis.

use crate::html::{escape, put};

/// `inline` marks within a line, as HTML.
fn inline(text: &str) -> String {
    let mut out = String::new();
    for (i, part) in text.split('`').enumerate() {
        if i % 2 == 1 {
            put!(out, "<code>{}</code>", escape(part));
            continue;
        }
        for (k, words) in part.split("**").enumerate() {
            let (open, close) = if k % 2 == 1 { ("<b>", "</b>") } else { ("", "") };
            put!(out, "{open}{}{close}", emphasis(words));
        }
    }
    out
}

/// `*words*`; a star with a space behind it is a star.
fn emphasis(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('*')
        && let Some((words, behind)) = after.split_once('*')
        && !words.is_empty()
        && words.trim() == words
    {
        put!(out, "{}<em>{}</em>", links(before), links(words));
        rest = behind;
    }
    out + &links(rest)
}

/// A link to somewhere within the project is its words: a page has no project around it.
fn links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find('[') {
        let found = rest[begin..].find("](").map(|at| begin + at);
        let end = found.and_then(|at| Some((at, at + rest[at..].find(')')?)));
        let Some((middle, end)) = end else { break };
        let (words, to) = (&rest[begin + 1..middle], &rest[middle + 2..end]);
        out += &escape(&rest[..begin]);
        match to.starts_with("https://") {
            true => put!(out, "<a href=\"{}\">{}</a>", escape(to), escape(words)),
            false => out += &escape(words),
        }
        rest = &rest[end + 1..];
    }
    out + &escape(rest)
}

fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_matches('|');
    line.split('|').map(|cell| inline(cell.trim())).collect()
}

/// Whether it is the row below a table's head.
fn is_rule(line: &str) -> bool {
    line.starts_with('|') && line.chars().all(|c| "|-: ".contains(c))
}

/// As HTML; headings begin two levels below a page's title.
pub fn html(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() {
            continue;
        }
        if line.starts_with("<!--") {
            if !line.contains("-->") {
                lines.by_ref().take_while(|l| !l.contains("-->")).for_each(drop);
            }
            continue;
        }
        if let Some(title) = line.strip_prefix('#') {
            let level = 1 + title.chars().take_while(|c| *c == '#').count();
            let title = title.trim_start_matches('#').trim();
            // The first level is the page's own.
            if level > 1 {
                put!(out, "<h3>{}</h3>\n", inline(title));
            }
        } else if let Some(first) = line.strip_prefix("    ") {
            let mut code = vec![first];
            while let Some(next) = lines.next_if(|l| l.starts_with("    ")) {
                code.push(&next[4..]);
            }
            put!(out, "<pre><code>{}</code></pre>\n", escape(&code.join("\n")));
        } else if line.starts_with("```") {
            let code: Vec<&str> = lines.by_ref().take_while(|l| !l.starts_with("```")).collect();
            put!(out, "<pre><code>{}</code></pre>\n", escape(&code.join("\n")));
        } else if line.starts_with('|') {
            // The row below says by a colon which columns stand flush right.
            let rule = lines.next_if(|l| is_rule(l)).unwrap_or_default();
            let right: Vec<bool> =
                rule.trim_matches('|').split('|').map(|c| c.trim().ends_with(':')).collect();
            let row = |line: &str, tag: &str| -> String {
                let class =
                    |i: usize| if right.get(i) == Some(&true) { " class=\"n\"" } else { "" };
                let all = cells(line).into_iter().enumerate();
                all.map(|(i, c)| format!("<{tag}{}>{c}</{tag}>", class(i))).collect()
            };
            let head = row(line, "th");
            put!(out, "<div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>\n");
            while let Some(line) = lines.next_if(|l| l.starts_with('|')) {
                put!(out, "<tr>{}</tr>\n", row(line, "td"));
            }
            out += "</tbody></table></div>\n";
        } else if let Some(first) = line.strip_prefix("- ") {
            let mut items = vec![first.to_owned()];
            while let Some(next) = lines.next_if(|l| l.starts_with("- ") || l.starts_with("  ")) {
                match next.strip_prefix("- ") {
                    Some(item) => items.push(item.to_owned()),
                    None => {
                        let last = items.last_mut().expect("one was begun");
                        *last += " ";
                        *last += next.trim();
                    }
                }
            }
            let items: String = items.iter().map(|i| format!("<li>{}</li>", inline(i))).collect();
            put!(out, "<ul class=\"plain\">{items}</ul>\n");
        } else {
            let mut words = vec![line.trim()];
            let of_paragraph = |l: &&str| {
                !l.trim().is_empty()
                    && !l.starts_with(['#', '|', '-', '<'])
                    && !l.starts_with("```")
            };
            while let Some(next) = lines.next_if(of_paragraph) {
                words.push(next.trim());
            }
            put!(out, "<p>{}</p>\n", inline(&words.join(" ")));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_studies_use_becomes_html() {
        let text = "# Title\n\nWords of **weight**, *met*, 2 * 3 * 4 and `code <b>`\ngo [on](a.md).\n\n| a | b |\n|---:|---|\n| 1 | `x` |\n\n\
                    - one\n  more\n- two\n\n    wordline study\n\n<!-- table\nrows = 1\n-->\n## Next\nEnd";
        let html = html(text);
        for part in [
            "<p>Words of <b>weight</b>, <em>met</em>, 2 * 3 * 4 and <code>code &lt;b&gt;</code> go on.</p>",
            "<th class=\"n\">a</th><th>b</th>",
            "<td class=\"n\">1</td><td><code>x</code></td>",
            "<li>one more</li><li>two</li>",
            "<pre><code>wordline study</code></pre>",
            "<h3>Next</h3>\n<p>End</p>",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
        assert!(!html.contains("Title") && !html.contains("---"), "{html}");
    }
}
