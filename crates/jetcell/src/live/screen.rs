//! The terminal of `--live`: taken over on stderr, so that stdout stays free for results, and always given back, at
//! the end, after a panic and on Ctrl-C.

use std::io::{self, IsTerminal, Stderr, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use super::{Monitor, view};

/// Time between two pictures.
const FRAME: Duration = Duration::from_millis(250);

/// Whether the terminal is taken over now.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Gives the terminal back if it is taken over. May be called at any time, from any thread.
pub fn restore_terminal() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        let _ = execute!(stderr(), LeaveAlternateScreen, Show);
    }
}

/// Draws a run until dropped.
pub struct Screen {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Screen {
    /// Takes the terminal over. `interrupt` is called for q and Ctrl-C. The error is a line for the user.
    pub fn open(monitor: Monitor, interrupt: impl Fn() + Send + 'static) -> Result<Screen, String> {
        if !stderr().is_terminal() {
            return Err(
                "--live draws on stderr, which is not a terminal: run it in one, or leave out --live".into(),
            );
        }
        let cannot =
            |error: io::Error| format!("--live: the terminal cannot be used: {error}; leave out --live");
        restore_after_panic();
        let terminal = take_over().map_err(|error| {
            restore_terminal();
            cannot(error)
        })?;
        let over = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&over);
        let thread = std::thread::spawn(move || show(terminal, &monitor, &asked, &interrupt));
        Ok(Screen { over, thread: Some(thread) })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        restore_terminal();
    }
}

fn take_over() -> io::Result<Terminal<CrosstermBackend<Stderr>>> {
    TAKEN.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    execute!(stderr(), EnterAlternateScreen)?;
    Terminal::new(CrosstermBackend::new(stderr()))
}

/// A message of a panic belongs on the usual screen, where it stays.
fn restore_after_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore_terminal();
        usual(panic);
    }));
}

fn show(
    mut terminal: Terminal<CrosstermBackend<Stderr>>,
    monitor: &Monitor,
    over: &AtomicBool,
    interrupt: &dyn Fn(),
) {
    // Without keys, signals still stop the run.
    let mut keys = true;
    while !over.load(Ordering::SeqCst) && TAKEN.load(Ordering::SeqCst) {
        let state = monitor.state();
        // A terminal that went away does not end the run.
        if terminal.draw(|frame| view::draw(frame, &state)).is_err() {
            return;
        }
        match keys.then(|| event::poll(FRAME)) {
            Some(Ok(false)) => {}
            Some(Ok(true)) => match event::read() {
                Ok(Event::Key(key)) if is_interrupt(&key) => interrupt(),
                Ok(_) => {}
                Err(_) => keys = false,
            },
            Some(Err(_)) => keys = false,
            None => std::thread::sleep(FRAME),
        }
    }
}

/// In this mode the terminal makes no signal of Ctrl-C.
fn is_interrupt(key: &KeyEvent) -> bool {
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press && (control_c || key.code == KeyCode::Char('q'))
}
