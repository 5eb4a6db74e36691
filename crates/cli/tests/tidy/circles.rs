//! Import circles between modules. A module and what is inside it serve one purpose; any others that import each other,
//! directly or round about, do not: neither single modules, nor the rooms at the top of a crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A module by its names from the root of its crate.
type Module = Vec<String>;
/// Which modules each one imports.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// The circles among these files of a crate, each as the modules in it.
pub fn circles(root: &Path, files: &[(std::path::PathBuf, String)]) -> Vec<String> {
    let modules: BTreeMap<Module, &str> =
        files.iter().map(|(path, text)| (module_of(root, path), text.as_str())).collect();
    let mut imports = Imports::new();
    for (module, text) in modules.iter().filter(|(module, _)| !module.is_empty()) {
        let named = paths(text).into_iter().filter_map(|path| resolved(module, &path, &modules));
        let others = named.filter(|named| !named.starts_with(module) && !module.starts_with(named));
        imports.insert(module.clone(), others.collect());
    }
    let mut rooms = Imports::new();
    for (module, others) in &imports {
        let room = module[..1].to_vec();
        let others = others.iter().map(|other| other[..1].to_vec()).filter(|other| *other != room);
        rooms.entry(room.clone()).or_default().extend(others);
    }
    let mut found: BTreeSet<String> = knots(&imports).into_iter().collect();
    found.extend(knots(&rooms));
    found.into_iter().collect()
}

fn module_of(root: &Path, path: &Path) -> Module {
    let path = path.strip_prefix(root).unwrap().with_extension("");
    let mut names: Module = path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    names.pop_if(|name| ["mod", "lib", "main"].contains(&name.as_str()));
    names
}

/// Everything a source file names from `crate`, `super` or `self` on, groups taken apart.
fn paths(text: &str) -> Vec<Vec<String>> {
    let code: String =
        text.lines().map(|line| line.split("//").next().unwrap_or("").to_owned() + "\n").collect();
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            tree(&code[at..], &mut Vec::new(), &mut found);
        }
    }
    found
}

/// Reads one path, or a group of paths in braces, and gives what follows it.
fn tree<'t>(mut text: &'t str, before: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'t str {
    let own = before.len();
    loop {
        text = text.trim_start();
        if let Some(mut group) = text.strip_prefix('{') {
            while let Some(part) = group.trim_start().strip_prefix(',').or(Some(group)) {
                let part = part.trim_start();
                if part.is_empty() || part.starts_with('}') {
                    break;
                }
                let rest = tree(part, before, found);
                if rest.len() == part.len() {
                    break;
                }
                group = rest;
            }
            text = group.find('}').map_or("", |end| &group[end + 1..]);
            break;
        }
        let name: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if name.is_empty() {
            text = text.strip_prefix('*').unwrap_or(text);
            found.push(before.clone());
            break;
        }
        text = &text[name.len()..];
        before.push(name);
        match text.strip_prefix("::") {
            Some(rest) => text = rest,
            None => {
                found.push(before.clone());
                text = text
                    .strip_prefix(" as ")
                    .map_or(text, |rest| rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'));
                break;
            }
        }
    }
    before.truncate(own);
    text
}

/// The module a path leads to: the longest part of it that is one.
fn resolved(from: &Module, path: &[String], modules: &BTreeMap<Module, &str>) -> Option<Module> {
    let mut at = from.clone();
    let mut names = path.iter().peekable();
    if names.next_if(|name| *name == "crate").is_some() {
        at.clear();
    }
    while let Some(name) = names.next_if(|name| ["super", "self"].contains(&name.as_str())) {
        if name == "super" {
            at.pop();
        }
    }
    at.extend(names.cloned());
    while !at.is_empty() && !modules.contains_key(&at) {
        at.pop();
    }
    (!at.is_empty()).then_some(at)
}

/// Modules that reach each other, as the names of all in a knot.
fn knots(imports: &Imports) -> Vec<String> {
    let reached = |from: &Module| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            for other in imports.get(module).into_iter().flatten() {
                if seen.insert(other) {
                    open.push(other);
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&Module, BTreeSet<&Module>> =
        imports.keys().map(|module| (module, reached(module))).collect();
    let mut found = BTreeSet::new();
    for (module, others) in &reach {
        let back = others.iter().filter(|other| reach.get(*other).is_some_and(|r| r.contains(module)));
        let names: BTreeSet<String> = back.map(|other| other.join("::")).collect();
        if !names.is_empty() {
            found.insert(names.into_iter().collect::<Vec<_>>().join(", "));
        }
    }
    found.into_iter().collect()
}

/// A circle of three, one through a group in braces, is found; a parent and its child are none.
#[test]
fn circles_are_found() {
    let root = Path::new("/c");
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::{b::{self, B}, d as e};\nmod inner;"),
        ("a/inner.rs", "use super::A; use crate::b::B;"),
        ("b.rs", "use super::c::C as D;"),
        ("c.rs", "fn f() { crate::a::g() } // crate::d"),
        ("d.rs", "use crate::c::C;"),
    ];
    let files = files.map(|(path, text)| (root.join(path), text.to_owned()));
    assert_eq!(circles(root, &files), ["a, b, c, d"]);
    assert_eq!(circles(root, &files[..3]), [""; 0]);
}
