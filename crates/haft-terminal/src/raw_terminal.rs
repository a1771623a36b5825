//! The terminal device: raw mode, size, signals, and restoring it in every case.
//!
//! In raw mode, keys arrive as single bytes without echo, Ctrl-C included. Output processing stays
//! enabled, so output of other programs still forms lines. The original modes are stored in one
//! process-wide place, because several paths must be able to restore them: the screen when it
//! closes, a signal, and a host that exits ([`restore`]).

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haft::sync::lock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcgetwinsize,
    tcsetattr,
};
use signal_hook::SigId;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};

/// Enables bracketed paste.
const ENABLE_BRACKETED_PASTE: &str = "\x1b[?2004h";
/// Disables bracketed paste and undoes everything that a frame may have changed: wrapping, cursor,
/// styles.
const RESET_TERMINAL: &str = "\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[0m\x1b[?2026l";

/// `Some` while a screen owns the terminal. Every write of the screen holds this lock, and nothing
/// is written after [`restore`] has taken the value: a later frame would stay on the terminal
/// beside the shell's prompt.
static SAVED_TERMINAL: Mutex<Option<SavedTerminal>> = Mutex::new(None);

/// The state to restore.
struct SavedTerminal {
    input: OwnedFd,
    output: OwnedFd,
    modes: Termios,
    /// The number of lines of the live region above the cursor.
    above: usize,
}

/// Restores the terminal as it was before a screen was opened; does nothing without a screen. For a
/// host that exits without closing its screen, from any thread.
pub fn restore() {
    let mut saved = lock(&SAVED_TERMINAL);
    if let Some(SavedTerminal { input, output, modes, above }) = saved.take() {
        let up = if above > 0 { format!("\x1b[{above}A") } else { String::new() };
        let _ = write_all(output.as_fd(), format!("{RESET_TERMINAL}\r{up}\x1b[J").as_bytes());
        let _ = tcsetattr(&input, OptionalActions::Drain, &modes);
    }
}

/// A terminal in raw mode.
pub(crate) struct RawTerminal {
    input: OwnedFd,
    output: OwnedFd,
    modes: Termios,
}

impl RawTerminal {
    /// Opens standard input, and the first of standard output and standard error that is a
    /// terminal.
    pub(crate) fn open() -> io::Result<RawTerminal> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let (out, err) = (io::stdout(), io::stderr());
        let output = [out.as_fd(), err.as_fd()].into_iter().find(|fd| isatty(fd));
        let Some(output) = output.filter(|_| isatty(&input)) else {
            let message =
                "a screen needs a terminal for standard input, and for standard output or standard error";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        };
        let output = output.try_clone_to_owned()?;
        let modes = tcgetattr(&input)?;
        let tty = RawTerminal { input, output, modes };
        tty.enter()?;
        Ok(tty)
    }

    /// Enters raw mode.
    pub(crate) fn enter(&self) -> io::Result<()> {
        let saved = SavedTerminal {
            input: self.input.try_clone()?,
            output: self.output.try_clone()?,
            modes: self.modes.clone(),
            above: 0,
        };
        *lock(&SAVED_TERMINAL) = Some(saved);
        let mut modes = self.modes.clone();
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        modes.input_modes -= InputModes::IXON | InputModes::ICRNL | InputModes::INLCR | InputModes::IGNCR;
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&self.input, OptionalActions::Now, &modes)?;
        self.write(ENABLE_BRACKETED_PASTE)
    }

    /// Leaves raw mode; the cursor stays where it is.
    pub(crate) fn leave(&self) {
        let mut saved = lock(&SAVED_TERMINAL);
        if saved.take().is_some() {
            let _ = write_all(self.output.as_fd(), RESET_TERMINAL.as_bytes());
            let _ = tcsetattr(&self.input, OptionalActions::Drain, &self.modes);
        }
    }

    pub(crate) fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// Returns the number of rows and columns.
    pub(crate) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.output) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
            _ => (24, 80),
        }
    }

    /// Writes text, unless the terminal was restored meanwhile.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        self.write_if_saved(text, |_| {})
    }

    /// Writes a frame whose live region has `above` lines above the cursor.
    pub(crate) fn write_frame(&self, frame: &str, above: usize) -> io::Result<()> {
        self.write_if_saved(frame, |saved| saved.above = above)
    }

    fn write_if_saved(&self, text: &str, update: impl FnOnce(&mut SavedTerminal)) -> io::Result<()> {
        let mut saved = lock(&SAVED_TERMINAL);
        let Some(saved) = saved.as_mut() else { return Ok(()) };
        update(saved);
        write_all(self.output.as_fd(), text.as_bytes())
    }

    /// Reads the available bytes; returns 0 at the end of the input.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match rustix::io::read(&self.input, bytes) {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => Err(error.into()),
        }
    }
}

fn write_all(output: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(output, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            // Another process made the shared file description non-blocking.
            Err(rustix::io::Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::from_borrowed_fd(output, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The handled signals: a flag for each, and a pipe that becomes readable when one is raised.
pub(crate) struct SignalFlags {
    pipe: io::PipeReader,
    flags: Vec<(i32, Arc<AtomicBool>)>,
    ids: Vec<SigId>,
}

impl SignalFlags {
    /// Registers handlers for the terminal's signals, and for those that end the process unless the
    /// host handles them.
    pub(crate) fn take(host_takes_ends: bool) -> io::Result<SignalFlags> {
        let (pipe, raised) = io::pipe()?;
        let mut signals = SignalFlags { pipe, flags: Vec::new(), ids: Vec::new() };
        let ends: &[i32] = if host_takes_ends { &[] } else { &[SIGINT, SIGTERM, SIGHUP, SIGQUIT] };
        for signal in [SIGWINCH, SIGTSTP, SIGCONT].iter().chain(ends) {
            let flag = Arc::new(AtomicBool::new(false));
            signals.ids.push(signal_hook::flag::register(*signal, flag.clone())?);
            signals.ids.push(signal_hook::low_level::pipe::register(*signal, raised.try_clone()?)?);
            signals.flags.push((*signal, flag));
        }
        Ok(signals)
    }

    pub(crate) fn pipe(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Returns the signals since the last call.
    pub(crate) fn raised(&mut self) -> Vec<i32> {
        let _ = io::Read::read(&mut self.pipe, &mut [0; 64]);
        self.flags
            .iter()
            .filter(|(_, flag)| flag.swap(false, Ordering::AcqRel))
            .map(|(signal, _)| *signal)
            .collect()
    }
}

impl Drop for SignalFlags {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// Returns whether a shell can stop and continue this process. A session leader has no such shell.
pub(crate) fn has_job_control() -> bool {
    rustix::process::getsid(None).ok() != Some(rustix::process::getpid())
}
