//! A real browser, told what to do over WebDriver: as much of it as these tests need.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use consort_testkit::Skip;
use serde_json::{Value, json};

use super::launch::{Launch, wait_until};

/// A browser without a window. Dropping it ends all of its processes.
pub(crate) struct Browser {
    driver: Launch,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts one.
    pub(crate) fn start() -> Result<Self, Skip> {
        for program in ["chromedriver", "chromium"] {
            if Command::new(program).arg("--version").output().is_err() {
                let why =
                    format!("there is no {program}: install Debian's chromium and chromium-driver");
                return Err(Skip::new(why));
            }
        }
        let mut command = Command::new("sh");
        command.args(["-c", "exec chromedriver --port=0 >&2"]);
        let driver = Launch::command(command);
        let port = wait_until("the driver's port", || {
            let said = driver.notices();
            let (_, port) = said.split_once(STARTED)?;
            port.split_once(|it: char| !it.is_ascii_digit())?.0.parse().ok()
        });
        let mut browser = Self { driver, port, session: String::new() };
        browser.open();
        Ok(browser)
    }

    fn open(&mut self) {
        let profile = self.driver.directory().join("profile");
        let mut arguments: Vec<String> = ARGUMENTS.iter().map(|&it| it.to_owned()).collect();
        arguments.push(format!("--user-data-dir={}", profile.display()));
        let options = json!({
            "browserName": "chrome",
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let asked = json!({ "capabilities": { "alwaysMatch": options } });
        let session = self.ask("POST", "/session", &asked);
        self.session = session["sessionId"].as_str().unwrap().to_owned();
    }

    /// Opens a page from a file.
    pub(crate) fn visit(&self, page: &Path) {
        self.tell("url", &json!({ "url": format!("file://{}", page.display()) }));
    }

    /// What a piece of a program in the page returns.
    pub(crate) fn find(&self, script: &str) -> Value {
        self.tell("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Shows the page as on a screen that is so many pixels wide.
    pub(crate) fn set_width(&self, width: u32) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.command("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Shows the page as for somebody who likes it dark, or light.
    pub(crate) fn set_scheme(&self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.command("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    }

    /// What the page has complained about.
    pub(crate) fn complaints(&self) -> Vec<Value> {
        let log = self.tell("se/log", &json!({ "type": "browser" }));
        log.as_array().unwrap().clone()
    }

    fn command(&self, name: &str, parameters: &Value) {
        self.tell("goog/cdp/execute", &json!({ "cmd": name, "params": parameters }));
    }

    fn tell(&self, what: &str, content: &Value) -> Value {
        self.ask("POST", &format!("/session/{}/{what}", self.session), content)
    }

    /// One request, and its answer.
    fn ask(&self, method: &str, path: &str, content: &Value) -> Value {
        let content = content.to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{content}",
            content.len()
        );
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let body = read_body(&mut BufReader::new(stream));
        let value = serde_json::from_slice::<Value>(&body).unwrap()["value"].clone();
        assert!(value.get("error").is_none(), "{path}: {value}");
        value
    }
}

/// What comes after the header, which says how long it is: the driver does not close the connection.
fn read_body(stream: &mut impl BufRead) -> Vec<u8> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap();
            }
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    body
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends the browser; whatever is left is killed with the driver.
        if !self.session.is_empty() && !std::thread::panicking() {
            self.ask("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
    }
}

/// A browser may take its time on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);

const STARTED: &str = "was started successfully on port ";

const ARGUMENTS: [&str; 7] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];
