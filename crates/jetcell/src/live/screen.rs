//! Terminal screen for the `--live` option. It uses stderr, because stdout is reserved for results. The terminal is
//! always restored: at the end, after a panic and on Ctrl-C.

use std::io::{self, IsTerminal, Stderr, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use jetcell_host::{Interrupt, at_exit};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};

use super::{RunMonitor, view};
use crate::outcome::{CommandError, CommandResult};

/// Interval between two frames.
const FRAME_INTERVAL: Duration = Duration::from_millis(250);

/// True while the screen uses the terminal.
static TERMINAL_IN_USE: AtomicBool = AtomicBool::new(false);

/// Restores the terminal if it is in use. May be called at any time, from any thread.
fn restore_terminal() {
    if TERMINAL_IN_USE.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        let _ = execute!(stderr(), LeaveAlternateScreen, Show);
    }
}

/// A screen that shows a run, and is redrawn periodically until it is dropped.
pub struct Screen {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Screen {
    /// Opens a screen for a run in this process. q and Ctrl-C are passed to `interrupt`.
    pub fn open_for_run(monitor: RunMonitor, interrupt: Interrupt) -> CommandResult<Screen> {
        Screen::open(move |frame| view::draw(frame, &monitor.state()), interrupt)
    }

    /// Opens a screen that is drawn four times per second. q and Ctrl-C are passed to `interrupt`.
    pub fn open(
        draw: impl Fn(&mut Frame<'_>) + Send + 'static,
        interrupt: Interrupt,
    ) -> CommandResult<Screen> {
        if !stderr().is_terminal() {
            return Err(CommandError::new("--live requires a terminal on stderr")
                .advise("run the command in a terminal, or omit --live"));
        }
        let cannot = |error: io::Error| {
            CommandError::new(format_args!("--live: the terminal cannot be used: {error}"))
                .advise("omit --live")
        };
        install_panic_hook();
        at_exit(restore_terminal);
        let terminal = set_up().map_err(|error| {
            restore_terminal();
            cannot(error)
        })?;
        let over = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&over);
        let thread = std::thread::spawn(move || show(terminal, &draw, &asked, &interrupt));
        Ok(Screen { is_stopped: over, thread: Some(thread) })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        restore_terminal();
    }
}

fn set_up() -> io::Result<Terminal<CrosstermBackend<Stderr>>> {
    TERMINAL_IN_USE.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    execute!(stderr(), EnterAlternateScreen)?;
    Terminal::new(CrosstermBackend::new(stderr()))
}

/// Installs a panic hook that restores the terminal before the panic message is printed, so that the message stays
/// visible.
fn install_panic_hook() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore_terminal();
        usual(panic);
    }));
}

fn show(
    mut terminal: Terminal<CrosstermBackend<Stderr>>,
    draw: &dyn Fn(&mut Frame<'_>),
    over: &AtomicBool,
    interrupt: &Interrupt,
) {
    // If keys cannot be read, signals can still stop the run.
    let mut keys = true;
    while !over.load(Ordering::SeqCst) && TERMINAL_IN_USE.load(Ordering::SeqCst) {
        // If drawing fails, the run continues without the screen.
        if terminal.draw(|frame| draw(frame)).is_err() {
            return;
        }
        match keys.then(|| event::poll(FRAME_INTERVAL)) {
            Some(Ok(false)) => {}
            Some(Ok(true)) => match event::read() {
                Ok(Event::Key(key)) if is_interrupt(&key) => interrupt.press(),
                Ok(_) => {}
                Err(_) => keys = false,
            },
            Some(Err(_)) => keys = false,
            None => std::thread::sleep(FRAME_INTERVAL),
        }
    }
}

/// Returns true for the key combination Ctrl-C, which does not raise a signal in raw mode.
fn is_interrupt(key: &KeyEvent) -> bool {
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press && (control_c || key.code == KeyCode::Char('q'))
}
