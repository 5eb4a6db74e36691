//! Pages in a browser, where there is one: nothing is wider than the window, on a desk and on a phone.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{errors, surety};

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Tells what is wider than the window, or than the box that would scroll it.
const LOOK: &str = "<script>
const wide = [...document.querySelectorAll('body *')].filter(e => !e.closest('svg') &&
  (e.getBoundingClientRect().right > innerWidth + 1 || e.matches('.scroll') && e.scrollWidth > e.clientWidth + 1));
const cut = [...document.querySelectorAll('svg text')].filter(e => {
  const text = e.getBoundingClientRect(), all = e.closest('svg').getBoundingClientRect();
  return all.width > 0 && (text.left < all.left - 1 || text.right > all.right + 1);
});
parent.postMessage(location.pathname + ', ' + innerWidth + ':' + [...wide, ...cut].slice(0, 5).map(e => e.tagName + ' ' + e.textContent.slice(0, 40)).join('; '), '*');
</script>";

const AB: &str = "load.busy.count=1,2";

/// What does not fit of each page in each width, as a browser has it; a line for each that has any, and how many were looked at.
fn looked_at(browser: &str, directory: &Path, pages: &[&PathBuf]) -> (usize, String) {
    // No window is as narrow as a frame may be.
    let mut frames = "<title></title><script>let seen = 0, said = '';\n\
        onmessage = e => { seen++; if (!e.data.endsWith(':')) said += e.data + ' | '; document.title = seen + ' ' + said };\n\
        </script>"
        .to_owned();
    for page in pages {
        let name = format!("looking-{}", page.file_name().unwrap().to_str().unwrap());
        let text = std::fs::read_to_string(page).unwrap();
        std::fs::write(directory.join(&name), text.replace("</body>", &format!("{LOOK}</body>"))).unwrap();
        for width in [1280, 400] {
            frames += &format!("<iframe src='{name}' width={width} height=2000 style='border: 0'></iframe>");
        }
    }
    let all = directory.join("all.html");
    std::fs::write(&all, frames).unwrap();
    let output = Command::new("timeout")
        .args(["-s", "KILL", "120", browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .args(["--window-size=1400,2000", "--virtual-time-budget=20000"])
        .arg(format!("file://{}", all.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let title = dom.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    let title = title.unwrap_or_else(|| panic!("no document: {}", errors(&output))).0;
    let (seen, said) = title.split_once(' ').unwrap_or_default();
    (seen.parse().unwrap_or(0), said.to_owned())
}

/// A traced run shows who ran; where there is nothing to draw from the page says how to get it.
#[test]
fn pages_draw_who_ran_around_the_longest_response() {
    let directory = tempfile::tempdir().unwrap();
    let (player, policies) = ("examples/video-player.toml", "examples/policies-under-load.toml");
    let page = |arguments: &[&str], name: &str| {
        let path = directory.path().join(name);
        let output = surety(&[arguments, &["--html", path.to_str().unwrap()]].concat());
        assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{arguments:?}: {}", errors(&output));
        std::fs::read_to_string(path).unwrap()
    };
    let trace = directory.path().join("trace.dat");
    let trace = trace.to_str().unwrap();
    let run = page(&["run", player, "--on", "sim", "--for", "500ms", "--trace", trace], "run.html");
    let explained = page(&["trace", "explain", trace, "--comm", "player"], "explained.html");
    for text in [&run, &explained] {
        assert_eq!(text.matches("<figure class=\"timeline\">").count(), 1);
        assert!(text.contains("player, job ") && text.contains(">release<") && text.contains("busy ("));
    }
    assert!(run.contains(">deadline 40 ms<"), "the deadline is in the workload alone");
    let varied = page(&["run", policies, "--on", "sim", "--for", "100ms"], "varied.html");
    let proven = page(&["run", player, "--on", "analysis"], "proven.html");
    assert!(
        varied.contains("without --repeat and [vary]") && proven.contains("run as root, or with --on sim")
    );
}

#[test]
fn nothing_is_wider_than_the_window() {
    let found = BROWSERS.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    let Some(browser) = found else {
        eprintln!("SKIPPED: no browser to look at pages with (Debian: chromium)");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (one, varied, trace, times) = (at("one.html"), at("varied.html"), at("trace.dat"), at("times.html"));
    let (planned, explained, compared) = (at("plan.html"), at("explained.html"), at("compared.html"));
    let of = |path: &Path| path.to_str().unwrap().to_owned();
    let (player, policies) = ("examples/video-player.toml", "examples/policies-under-load.toml");
    for arguments in [
        vec!["run", player, "--on", "sim", "analysis", "--for", "2s", "--html", &of(&one)],
        vec!["run", policies, "--on", "sim", "--for", "1s", "--html", &of(&varied)],
        vec!["run", player, "--on", "sim", "--for", "2s", "--trace", &of(&trace)],
        vec!["plan", player, "--html", &of(&planned)],
        vec!["trace", "explain", &of(&trace), "--comm", "player", "--html", &of(&explained)],
        vec![
            "run",
            player,
            "--on",
            "sim",
            "--for",
            "1s",
            "--ab",
            AB,
            "--pairs",
            "5",
            "--html",
            &of(&compared),
        ],
        vec!["trace", "stats", &of(&trace), "--comm", "player", "--distribution", "--html", &of(&times)],
    ] {
        let output = surety(&arguments);
        assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{arguments:?}: {}", errors(&output));
    }
    let pages = [&one, &varied, &times, &planned, &explained, &compared];
    assert_eq!(looked_at(browser, directory.path(), &pages), (2 * pages.len(), String::new()));
}
