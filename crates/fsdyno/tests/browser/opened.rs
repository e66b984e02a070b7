//! A page opened in Chromium, and all that it said and asked for. What is to be found in it is left to
//! the tests.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headless_chrome::protocol::cdp::types::Event;
use headless_chrome::protocol::cdp::{Emulation, Network, Page};
use headless_chrome::{Browser, LaunchOptions, Tab};

/// Light or dark.
#[derive(Debug, Clone, Copy)]
pub enum Scheme {
    Light,
    Dark,
}

/// The browser; `None` where it is not installed.
pub fn chromium() -> Option<Browser> {
    let path = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.exists())?;
    let options = LaunchOptions {
        path: Some(path),
        sandbox: false,
        idle_browser_timeout: Duration::from_secs(300),
        args: vec![OsStr::new("--hide-scrollbars")],
        ..LaunchOptions::default()
    };
    Some(Browser::new(options).expect("chromium starts"))
}

/// A page in a tab of its own.
pub struct Opened {
    tab: Arc<Tab>,
    width: u32,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Opened {
    /// Opens the file at `path` on a screen of `width` pixels.
    pub fn new(browser: &Browser, path: &Path, width: u32, scheme: Scheme) -> Opened {
        let tab = browser.new_tab().unwrap();
        tab.set_default_timeout(Duration::from_secs(60));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let url = format!("file://{}", path.display());
        listen(&tab, &heard, &url);
        let features = vec![Emulation::MediaFeature {
            name: "prefers-color-scheme".to_owned(),
            value: match scheme {
                Scheme::Light => "light".to_owned(),
                Scheme::Dark => "dark".to_owned(),
            },
        }];
        tab.call_method(Emulation::SetEmulatedMedia { media: None, features: Some(features) })
            .unwrap();
        let opened = Opened { tab, width, heard };
        opened.resize(900);
        opened.tab.navigate_to(&url).unwrap().wait_until_navigated().unwrap();
        opened.settle();
        opened
    }

    fn resize(&self, height: u32) {
        self.tab
            .call_method(Emulation::SetDeviceMetricsOverride {
                width: self.width,
                height,
                device_scale_factor: if self.width < 500 { 2.0 } else { 1.0 },
                mobile: self.width < 500,
                scale: None,
                screen_width: None,
                screen_height: None,
                position_x: None,
                position_y: None,
                dont_set_visible_size: None,
                screen_orientation: None,
                viewport: None,
                display_feature: None,
                device_posture: None,
            })
            .unwrap();
    }

    fn evaluate(&self, expression: &str) -> serde_json::Value {
        let result = self.tab.evaluate(expression, false);
        let object = result.unwrap_or_else(|error| panic!("{expression}: {error}"));
        object.value.unwrap_or(serde_json::Value::Null)
    }

    pub fn run(&self, expression: &str) {
        self.evaluate(&format!("void ({expression})"));
    }

    #[track_caller]
    pub fn text(&self, expression: &str) -> String {
        let value = self.evaluate(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression} is {value}")).to_owned()
    }

    #[track_caller]
    pub fn number(&self, expression: &str) -> f64 {
        let value = self.evaluate(expression);
        value.as_f64().unwrap_or_else(|| panic!("{expression} is {value}"))
    }

    #[track_caller]
    pub fn truth(&self, expression: &str) -> bool {
        let value = self.evaluate(expression);
        value.as_bool().unwrap_or_else(|| panic!("{expression} is {value}"))
    }

    /// Waits until two frames have been painted.
    pub fn settle(&self) {
        let frames = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))";
        self.tab.evaluate(frames, true).unwrap();
    }

    #[track_caller]
    pub fn wait_for(&self, expression: &str) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !self.truth(expression) {
            assert!(Instant::now() < deadline, "never true: {expression}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Drags over the first element that `selector` finds, between two shares of its width.
    pub fn drag(&self, selector: &str, from: f64, to: f64) {
        self.run(&format!(
            "(() => {{ const it = document.querySelector({selector:?}); it.scrollIntoView({{ block: 'center' }}); \
             const box = it.getBoundingClientRect(); \
             const at = (type, share, on) => on.dispatchEvent(new MouseEvent(type, {{ bubbles: true, button: 0, buttons: 1, view: window, \
               clientX: box.left + box.width * share, clientY: box.top + box.height / 2, \
               movementX: 9, movementY: 0 }})); \
             at('mouseenter', {from}, it); at('mousemove', {from}, it); at('mousedown', {from}, it); \
             at('mousemove', {to}, it); at('mouseup', {to}, document); }})()"
        ));
        self.settle();
    }

    /// The whole page as `target/screenshots/NAME.png`.
    pub fn screenshot(&self, name: &str) {
        let height = self.number("document.documentElement.scrollHeight");
        self.resize(height.min(16_000.0) as u32);
        self.settle();
        let format = Page::CaptureScreenshotFormatOption::Png;
        let png = self.tab.capture_screenshot(format, None, None, true).unwrap();
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/screenshots");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("{name}.png")), png).unwrap();
    }

    /// Asserts that it said nothing on the console and asked for nothing but itself.
    #[track_caller]
    pub fn assert_quiet(&self) {
        let heard = self.heard.lock().unwrap();
        assert!(heard.is_empty(), "{}", heard.join("\n"));
    }
}

/// Notes every message, exception and request.
fn listen(tab: &Arc<Tab>, heard: &Arc<Mutex<Vec<String>>>, url: &str) {
    tab.enable_log().unwrap().enable_runtime().unwrap();
    tab.call_method(Network::Enable {
        max_total_buffer_size: None,
        max_resource_buffer_size: None,
        max_post_data_size: None,
        report_direct_socket_traffic: None,
        enable_durable_messages: None,
    })
    .unwrap();
    let (heard, url) = (Arc::clone(heard), url.to_owned());
    let listener = move |event: &Event| {
        let said = match event {
            Event::LogEntryAdded(it) => format!("log: {}", it.params.entry.text),
            Event::RuntimeExceptionThrown(it) => {
                format!("exception: {:?}", it.params.exception_details)
            }
            Event::RuntimeConsoleAPICalled(it) => format!("console: {:?}", it.params.args),
            Event::NetworkRequestWillBeSent(it) if it.params.request.url != url => {
                format!("request: {}", it.params.request.url)
            }
            _ => return,
        };
        heard.lock().unwrap().push(said);
    };
    tab.add_event_listener(Arc::new(listener)).unwrap();
}
