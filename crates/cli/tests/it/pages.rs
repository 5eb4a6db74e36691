//! Pages in a browser, where there is one: nothing is wider than the window, on a desk and on a phone.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{alone, errors, is_root, surety};

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

/// Widths of a desk and of a phone.
const WIDTHS: [u32; 2] = [1280, 400];

/// What a browser says of each page it got to in each width: `PATH, WIDTH:WHAT DOES NOT FIT`, nothing behind the colon where all fits.
fn looked_at_once(browser: &str, directory: &Path, pages: &[&PathBuf]) -> Vec<String> {
    // No window is as narrow as a frame may be.
    let mut frames = "<title></title><script>let said = '';\n\
        onmessage = e => { said += e.data + ' | '; document.title = said };\n\
        </script>"
        .to_owned();
    for page in pages {
        let name = looking(page);
        let text = std::fs::read_to_string(page).unwrap();
        std::fs::write(directory.join(&name), text.replace("</body>", &format!("{LOOK}</body>"))).unwrap();
        for width in WIDTHS {
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
    let title = title.map(|(title, _)| title).unwrap_or_default();
    title.split(" | ").filter(|said| !said.is_empty()).map(str::to_owned).collect()
}

/// The copy of a page that says what does not fit.
fn looking(page: &Path) -> String {
    format!("looking-{}", page.file_name().unwrap().to_str().unwrap())
}

/// What does not fit, of every page in every width. A browser on a busy machine ends before it has drawn the last of many frames:
/// it is shown again what it said nothing of, at most five times.
fn does_not_fit(browser: &str, directory: &Path, pages: &[PathBuf]) -> String {
    let mut said = Vec::new();
    let mut left: Vec<&PathBuf> = pages.iter().collect();
    for _ in 0..5 {
        said.append(&mut looked_at_once(browser, directory, &left));
        let is_seen = |page: &Path| {
            WIDTHS.iter().all(|width| {
                let about = format!("{}, {width}:", looking(page));
                said.iter().any(|line| line.contains(&about))
            })
        };
        left.retain(|page| !is_seen(page));
        if left.is_empty() {
            break;
        }
    }
    assert!(left.is_empty(), "the browser did not get to {left:?}, and said {said:?} of the others");
    said.retain(|line| !line.ends_with(':'));
    said.join("\n")
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

/// Thirty tasks with long names, each with a promise, in eight combinations.
fn large() -> String {
    let task = |n: usize| {
        format!(
            "[[task]]\nname = \"axis-{n:02}-position-and-torque-loop\"\nperiod = \"20ms\"\nwork = \"400us\"\n\
             promise = [\"response <= 20ms @ 99%\"]\n"
        )
    };
    let tasks: String = (0..30).map(task).collect();
    format!(
        "format = 1\n{tasks}[[load]]\nname = \"background-compilation\"\nkind = \"spinners\"\ncount = 1\n\
         [vary]\n\"load.background-compilation.count\" = [0, 1, 2, 3, 4, 5, 6, 8]\n"
    )
}

/// A promise that no reservation keeps, beside one that is easily kept.
const REFUSED: &str = "format = 1\n[[task]]\nname = \"encoder\"\nperiod = \"20ms\"\nlate = \"skip\"\n\
    work = { kind = \"lognormal\", mean = \"17ms\", p99 = \"26ms\" }\npromise = [\"response <= 20ms @ 99%\"]\n\
    [[task]]\nname = \"audio\"\nperiod = \"10ms\"\nwork = \"1ms\"\npromise = [\"response <= 10ms @ 99%\"]\n";

/// Commands of every kind of page; `trace` and `records` are written by the first two.
fn commands(trace: &str, records: &str, large: &str, refused: &str) -> Vec<Vec<String>> {
    let player = "examples/video-player.toml";
    let lines = [
        format!("run {player} --on sim --for 2s --trace {trace}"),
        format!("run {player} --on sim analysis --for 2s"),
        "run examples/policies-under-load.toml --on sim --for 1s".to_owned(),
        format!("run {large} --on sim --for 100ms"),
        "run examples/guaranteed-streams.toml --on sim --for 3s".to_owned(),
        "run examples/disk-schedulers.toml --on sim --for 500ms".to_owned(),
        "run examples/link.toml --on sim --for 1s".to_owned(),
        "run examples/irq-reservation.toml --on sim --for 500ms".to_owned(),
        format!("plan {player}"),
        format!("plan {refused}"),
        "plan examples/guaranteed-streams.toml".to_owned(),
        // The longest verdicts beside each other, in columns of the longest promises that are columns.
        format!("run {refused} --on sim analysis sim:linux-6.6 --for 1s"),
        format!("trace explain {trace} --comm player"),
        format!("trace stats {trace} --comm player --distribution"),
        format!("run {player} --on sim --for 1s --ab {AB} --pairs 5"),
        format!("report {records}"),
        format!("compare {records} {records}"),
        "latency --jobs 200 --policy fair".to_owned(),
        "noise --for 200ms".to_owned(),
        "reproduce spinner --on sim".to_owned(),
    ];
    let mut commands: Vec<Vec<String>> =
        lines.iter().map(|line| line.split(' ').map(str::to_owned).collect()).collect();
    if is_root() {
        commands.push(["guarantee", refused, "--for", "1s"].map(str::to_owned).to_vec());
    }
    commands
}

#[test]
fn nothing_is_wider_than_the_window() {
    let found = BROWSERS.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    let Some(browser) = found else {
        eprintln!("SKIPPED: no browser to look at pages with (Debian: chromium)");
        return;
    };
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let of = |path: &Path| path.to_str().unwrap().to_owned();
    let (records, large_file, refused) = (at("records.json"), at("large.toml"), at("refused.toml"));
    std::fs::write(&large_file, large()).unwrap();
    std::fs::write(&refused, REFUSED).unwrap();
    let told = surety(&["run", "examples/video-player.toml", "--on", "sim", "--for", "1s", "--json"]);
    std::fs::write(&records, &told.stdout).unwrap();
    let commands = commands(&of(&at("trace.dat")), &of(&records), &of(&large_file), &of(&refused));
    let mut pages = Vec::new();
    for (number, command) in commands.iter().enumerate() {
        let page = at(&format!("{number:02}-{}.html", command[0]));
        let to = of(&page);
        let arguments: Vec<&str> =
            command.iter().map(String::as_str).chain(["--html", to.as_str()]).collect();
        let output = surety(&arguments);
        // What a machine ends early has a page of what was finished.
        let is_whole = matches!(output.status.code(), Some(0 | 1 | 4)) || command[0] == "guarantee";
        assert!(is_whole && page.exists(), "{arguments:?}: {}", errors(&output));
        pages.push(page);
    }
    assert_eq!(does_not_fit(browser, directory.path(), &pages), "");
}

/// What is very large is a matrix of marks, and what is read later is folded.
#[test]
fn large_pages_begin_with_a_matrix_of_marks_and_fold_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let (file, page) = (directory.path().join("large.toml"), directory.path().join("large.html"));
    std::fs::write(&file, large()).unwrap();
    let (file, to) = (file.to_str().unwrap(), page.to_str().unwrap());
    let output = surety(&["run", file, "--on", "sim", "--for", "100ms", "--html", to]);
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", errors(&output));
    let text = std::fs::read_to_string(&page).unwrap();
    let (matrix, rest) = text.split_once("<h2>Results</h2>").unwrap();
    let body = matrix.split_once("<tbody>").unwrap().1;
    assert_eq!((body.matches("<tr>").count(), body.matches("class=\"mark badge").count()), (30, 30 * 8));
    // Drawings of each task, reasons of each promise, what was in force in each result, and the lines of the table; reasons of the first ten promises
    // that are not kept are on paper.
    assert_eq!(rest.matches("<details class=\"shut screen\">").count(), 30 + 8 + 1);
    assert_eq!(rest.matches("<details class=\"shut\">").count(), 20);
    // No title without what is below it is printed, and each section says so.
    assert_eq!(rest.matches("<p class=\"unprinted\">").count(), 3);
    assert!(text.contains("details.screen:not([open]) { display: none; }"));
    assert_eq!(rest.matches("<details><summary>").count(), 10);
}
