//! The frame of a page: styles, the library that draws, data, licences.

use crate::html::{escape, json, put};
use serde_json::Value;

const CSS: &str = include_str!("../assets/page.css");
const LIGHT: &str = include_str!("../assets/light.css");
const DARK: &str = include_str!("../assets/dark.css");
const D3: &str = include_str!("../assets/d3.min.js");
const PLOT: &str = include_str!("../assets/plot.umd.min.js");
const SCRIPT: &str = include_str!("../assets/page.js");
const D3_LICENCE: &str = include_str!("../assets/d3.LICENSE");
const PLOT_LICENCE: &str = include_str!("../assets/plot.LICENSE");

/// What a page is made of.
#[derive(Debug)]
pub struct Shell<'a> {
    pub title: &'a str,
    /// HTML below the title.
    pub sub: &'a str,
    /// HTML.
    pub body: &'a str,
    /// Sections by id and title.
    pub sections: &'a [(&'a str, &'a str)],
    /// What is drawn; none of a page without pictures.
    pub data: Option<&'a Value>,
}

impl Shell<'_> {
    pub fn html(&self) -> String {
        let css = CSS.replace("LIGHT", LIGHT.trim()).replace("DARK", DARK.trim());
        let mut out = String::with_capacity(1 << 20);
        put!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"generator\" content=\"wordline {}\">\n<title>{}</title>\n\
             <link rel=\"icon\" href=\"data:,\">\n<style>\n{css}</style>\n</head>\n<body>\n",
            env!("CARGO_PKG_VERSION"),
            escape(self.title)
        );
        put!(
            out,
            "<header><div><h1>{}</h1>\n<p class=\"sub\">{}</p></div>\
             <button type=\"button\" id=\"theme\" class=\"js-only\">light / dark</button></header>\n<main>\n",
            escape(self.title),
            self.sub
        );
        if self.sections.len() > 1 {
            let links = self
                .sections
                .iter()
                .map(|(id, title)| format!("<a href=\"#{id}\">{}</a>", escape(title)));
            put!(out, "<nav aria-label=\"sections\">{}</nav>\n", links.collect::<String>());
        }
        if self.data.is_some() {
            out += "<noscript><p class=\"note\">Pictures are drawn by JavaScript, which is off or missing here. \
                    Their numbers are in the tables.</p></noscript>\n";
        }
        out += self.body;
        put!(out, "</main>\n<footer><p>wordline {}", env!("CARGO_PKG_VERSION"));
        if let Some(data) = self.data {
            put!(
                out,
                ". Pictures by Observable Plot 0.6.17 and D3 7.9.2.</p>\
                 <details><summary>Licences of Observable Plot and D3</summary><pre>{}</pre><pre>{}</pre></details>",
                escape(PLOT_LICENCE),
                escape(D3_LICENCE)
            );
            put!(
                out,
                "</footer>\n<script type=\"application/json\" id=\"data\">{}</script>\n\
                 <script>{D3}</script>\n<script>{PLOT}</script>\n<script>{SCRIPT}</script>\n",
                json(data)
            );
        } else {
            out += ".</p></footer>\n";
        }
        out += "</body>\n</html>\n";
        out
    }
}
