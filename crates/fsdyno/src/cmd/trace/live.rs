//! The live view: takes the terminal, draws twice a second, listens to keys, gives the terminal back
//! whatever happens. What is drawn is left to [`super::screen`].

use std::time::{Duration, Instant};

use anyhow::Context as _;
use fsdyno_model::io_graph::IoTotals;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::screen::{self, Now, Shown};
use super::sink::Shared;

/// Time between two pictures.
const PERIOD: Duration = Duration::from_millis(500);

/// The terminal while it is ours.
#[derive(Debug)]
pub struct View {
    terminal: DefaultTerminal,
    shared: Shared,
    label: String,
    started: Instant,
    drawn: Option<Instant>,
    before: Option<(Instant, IoTotals)>,
}

impl View {
    /// Takes the terminal. It is given back when this value is dropped, and when the program panics.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn start(shared: Shared, label: String) -> anyhow::Result<View> {
        let terminal = ratatui::try_init().context("--live cannot use this terminal")?;
        Ok(View { terminal, shared, label, started: Instant::now(), drawn: None, before: None })
    }

    /// Waits for `patience` at most, draws when it is time; true when the user wants to stop.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn step(&mut self, patience: Duration) -> anyhow::Result<bool> {
        let mut wants_redraw = self.drawn.is_none_or(|drawn| drawn.elapsed() >= PERIOD);
        let mut stop = false;
        if event::poll(patience)? {
            match event::read()? {
                Event::Key(key) => stop = ends(key),
                Event::Resize(..) => wants_redraw = true,
                _ => {}
            }
        }
        if wants_redraw {
            self.draw()?;
        }
        Ok(stop)
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        let graph = self.shared.graph();
        let at = Instant::now();
        let now = self.before.as_ref().map(|(before, totals)| {
            Now::between(totals, &graph.totals, at.duration_since(*before))
        });
        // Requests come in bursts: rates over less than a period would jump.
        if self.before.as_ref().is_none_or(|(before, _)| before.elapsed() >= PERIOD) {
            self.before = Some((at, graph.totals.clone()));
        }
        let shown = Shown {
            label: &self.label,
            elapsed: self.started.elapsed(),
            graph: &graph,
            now: now.unwrap_or_default(),
        };
        self.terminal.draw(|frame| screen::draw(frame, &shown))?;
        self.drawn = Some(Instant::now());
        Ok(())
    }
}

impl Drop for View {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// `q`, Esc, and Ctrl-C, which is a key like others here.
fn ends(key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press
        && match key.code {
            KeyCode::Char('q' | 'Q') | KeyCode::Esc => true,
            KeyCode::Char('c' | 'C') => control,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_end_it() {
        let key = |code, modifiers| ends(KeyEvent::new(code, modifiers));
        assert!(key(KeyCode::Char('q'), KeyModifiers::NONE));
        assert!(key(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(!key(KeyCode::Char('c'), KeyModifiers::NONE));
        assert!(!key(KeyCode::Enter, KeyModifiers::NONE));
    }
}
