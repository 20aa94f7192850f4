//! A page in a real browser: Debian's headless Chromium, asked through its pipe for debuggers.
//!
//! `STRATA_BLESS=1 cargo test -p strata --test cli -- --ignored long_a_page_works_in_a_browser` makes the pictures of
//! `docs/guide/html.md`, too.

use crate::support::prelude::*;

use std::process::{ChildStdin, ChildStdout};

/// A browser with one page.
struct Browser {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    nr_orders: u64,
    /// What the page said on its console, and exceptions.
    troubles: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    fn start(program: &Path) -> Browser {
        let profile = tempfile::tempdir().expect("a folder");
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh"])
            .arg(program)
            .args([
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a browser");
        let (orders, answers) = (
            child.stdin.take().expect("a pipe"),
            child.stdout.take().expect("a pipe"),
        );
        let mut browser = Browser {
            child,
            orders,
            answers: BufReader::new(answers),
            session: None,
            nr_orders: 0,
            troubles: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.call(
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in [
            "Runtime.enable",
            "Log.enable",
            "Page.enable",
            "Network.enable",
        ] {
            browser.call(domain, json!({}));
        }
        browser
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.nr_orders += 1;
        let mut order = json!({"id": self.nr_orders, "method": method, "params": params});
        if let Some(session) = &self.session {
            order["sessionId"] = json!(session);
        }
        self.orders
            .write_all(format!("{order}\0").as_bytes())
            .expect("an order");
        loop {
            let mut answer = Vec::new();
            self.answers.read_until(0, &mut answer).expect("an answer");
            answer.pop();
            let answer: Value = serde_json::from_slice(&answer).expect("JSON");
            if answer["id"] == self.nr_orders {
                assert_eq!(answer["error"], Value::Null, "{method}");
                return answer["result"].clone();
            }
            match answer["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded" => {
                    self.troubles.push(answer["params"].to_string());
                }
                // The page itself is the only thing that is loaded.
                "Network.requestWillBeSent" if answer["params"]["type"] != "Document" => {
                    self.troubles.push(answer["params"].to_string());
                }
                _ => {}
            }
        }
    }

    fn evaluate(&mut self, expression: &str) -> Value {
        let said = self.call(
            "Runtime.evaluate",
            json!({"expression": expression, "returnByValue": true}),
        );
        assert_eq!(said["exceptionDetails"], Value::Null, "{expression}");
        said["result"]["value"].clone()
    }

    fn open(&mut self, page: &Path, width: u32, height: u32, scheme: &str) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", scheme);
        self.call(
            "Page.navigate",
            json!({"url": format!("file://{}", page.display())}),
        );
        let until = Instant::now() + Duration::from_secs(30) * patience();
        while self.evaluate(
            "document.readyState === 'complete' && document.getElementById('tip') !== null",
        ) != json!(true)
        {
            assert!(Instant::now() < until, "the page is not there");
            sleep(Duration::from_millis(50));
        }
    }

    /// Moves the pointer to the middle of an element, and clicks there if asked to.
    fn point(&mut self, selector: &str, is_click: bool) {
        let place = self.evaluate(&format!(
            "(() => {{ const of = document.querySelector({selector:?}); of.scrollIntoView({{block: 'center'}}); \
             const box = of.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; }})()"
        ));
        // The event of the scrolling comes with the next frame.
        sleep(Duration::from_millis(200));
        let mut event = |kind: &str, buttons: u32| {
            let event = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "buttons": buttons, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        };
        event("mouseMoved", 0);
        if is_click {
            event("mousePressed", 1);
            event("mouseReleased", 0);
        }
    }

    /// Takes a picture of what is seen, if pictures are to be made anew.
    fn picture(&mut self, name: &str) {
        if std::env::var_os("STRATA_BLESS").is_none() {
            return;
        }
        let taken = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let mut decode = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(File::create(checkout().join("docs/images").join(name)).expect("a file"))
            .spawn()
            .expect("base64");
        let text = taken["data"].as_str().expect("a picture");
        decode
            .stdin
            .take()
            .expect("a pipe")
            .write_all(text.as_bytes())
            .expect("written");
        assert!(decode.wait().expect("base64").success());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Whatever the test came to, nothing of it stays.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "downloads a browser"]
fn long_a_page_works_in_a_browser() {
    let script = checkout().join("scripts/servers.sh");
    let fetched = Command::new(script)
        .arg("chromium")
        .output()
        .expect("a shell");
    if !fetched.status.success() {
        skip!("no chromium: {}", String::from_utf8_lossy(&fetched.stderr));
    }
    let program = target_dir().join("servers/bin/chromium-headless-shell");
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let recording = checkout().join("tests/recordings/cold.strata");
    Strata::new(["html"])
        .arg(recording)
        .arg("-o")
        .arg(&page)
        .finish()
        .expect_success();
    let mut browser = Browser::start(&program);

    browser.open(&page, 1000, 760, "light");
    let has = |browser: &mut Browser, selector: &str| {
        let found = browser.evaluate(&format!("document.querySelectorAll({selector:?}).length"));
        found.as_u64().expect("a number")
    };
    for selector in ["h1", ".plot.heat", "polyline", ".dot", ".bar", "tr[id^=m]"] {
        assert!(has(&mut browser, selector) > 0, "{selector}");
    }
    // A hover tells the exact value.
    let tip = |browser: &mut Browser| {
        let text = browser.evaluate("(() => { const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.textContent; })()");
        text.as_str().expect("a text").to_owned()
    };
    assert_eq!(tip(&mut browser), "");
    browser.point(".plot.heat", false);
    let told = tip(&mut browser);
    assert_has(&told, "used, of ");
    assert_has(&told, " from 0x");
    browser.point(".dot", false);
    assert!(
        tip(&mut browser).contains("slowdown expected: "),
        "{}",
        tip(&mut browser)
    );
    browser.point(".bar .track", false);
    assert!(
        tip(&mut browser).contains("anonymous memory: "),
        "{}",
        tip(&mut browser)
    );
    // A click marks the row of the mapping, and its name leads there.
    browser.point(".plot.heat", true);
    assert_eq!(
        browser.evaluate("document.querySelector('tr.hit').id"),
        json!("m0")
    );
    browser.point("figure figcaption a", true);
    assert_eq!(browser.evaluate("location.hash"), json!("#m0"));
    let background =
        |browser: &mut Browser| browser.evaluate("getComputedStyle(document.body).backgroundColor");
    let light = background(&mut browser);
    browser.open(&page, 1000, 1250, "light");
    browser.picture("html-light.png");

    // A phone at night.
    browser.open(&page, 360, 740, "dark");
    assert_ne!(background(&mut browser), light);
    assert_eq!(
        browser.evaluate("document.documentElement.scrollWidth"),
        json!(360)
    );
    browser.point(".plot.heat", false);
    assert_eq!(
        browser.evaluate("document.getElementById('tip').getBoundingClientRect().right <= 360"),
        json!(true)
    );
    browser.evaluate("document.getElementById('tip').hidden = true; document.getElementById('heat').scrollIntoView()");
    browser.picture("html-dark.png");

    // A host's page with its files, of which one has a hostile name.
    super::html::host(folder.path());
    Strata::new(["html", "--files"])
        .arg(folder.path().join("files.json"))
        .arg(folder.path().join("history.db"))
        .arg("-o")
        .arg(&page)
        .finish()
        .expect_success();
    browser.open(&page, 360, 740, "dark");
    assert_eq!(
        browser.evaluate("document.documentElement.scrollWidth"),
        json!(360)
    );
    browser.point("a[href='#files-0']", true);
    assert_eq!(browser.evaluate("location.hash"), json!("#files-0"));
    assert_eq!(browser.troubles, Vec::<String>::new());
}
