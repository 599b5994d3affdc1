//! Pages and the Python package draw the same results: what both have labels and colours for is the same, and
//! nothing that a result names is missing.

use std::path::Path;
use wordline_base::Layer;
use wordline_sim::Cause;

fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The strings in double quotes of a line.
fn quoted(line: &str) -> Vec<&str> {
    line.split('"').skip(1).step_by(2).collect()
}

/// The lines of an assignment in Python, from the one after `name = ` to the bracket alone.
fn lines_of<'a>(python: &'a str, name: &str) -> Vec<&'a str> {
    let begin = |line: &&str| !line.starts_with(&format!("{name} = "));
    let lines = python.lines().skip_while(begin).skip(1);
    lines.take_while(|line| line.starts_with(' ')).collect()
}

#[test]
fn causes_of_writes_have_the_same_labels_on_pages_and_in_python() {
    let (python, page) = (text("python/wordline/plot.py"), text("crates/page/assets/page.js"));
    let causes = lines_of(&python, "CAUSES");
    let mut keys = Vec::new();
    for line in &causes {
        let [key, label, _colour] = quoted(line)[..] else {
            panic!("{line}: no key, label, colour")
        };
        let cause = key.strip_suffix("_sectors").unwrap_or(key);
        let drawn = format!("label: \"{label}\", csv: \"{cause}\"");
        assert!(page.contains(&drawn), "page.js has no {drawn}, which plot.py says of {key}");
        assert!(page.contains(&format!("of(\"{key}\")")), "page.js draws no {key}");
        keys.push(cause);
    }
    for cause in Cause::ALL.map(Cause::name) {
        assert!(keys.contains(&cause), "plot.py has no label for {cause}: {keys:?}");
    }
    assert_eq!(keys.len(), Cause::ALL.len());
}

#[test]
fn each_layer_has_a_colour_on_pages_and_in_python() {
    let python = text("python/wordline/_html.py");
    let colours = lines_of(&python, "LAYER_COLOURS");
    let layers: Vec<&str> = colours.iter().map(|line| quoted(line)[0]).collect();
    assert_eq!(layers.len(), Layer::ALL.len(), "{layers:?}");
    for layer in Layer::ALL.map(Layer::name) {
        assert!(layers.contains(&layer), "_html.py has no colour for {layer}");
        let slug = layer.to_lowercase().replace(' ', "-");
        for css in ["light", "dark"] {
            let sheet = text(&format!("crates/page/assets/{css}.css"));
            assert!(sheet.contains(&format!("--l-{slug}: #")), "{css}.css has no --l-{slug}");
        }
    }
}
