//! The terminal itself: its modes, its size, its signals, and that it is always given back as it was.
//!
//! Keys come one by one, unseen and as bytes (Ctrl-C is a byte too); output keeps its line ends, so that what others write
//! meanwhile still looks like lines. The modes as they were are kept in one place of the process, because whoever ends it
//! has to be able to give them back: the screen when it closes, a signal, or a host that exits ([`restore`]).

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

/// Pastes come in brackets.
const ENTER: &str = "\x1b[?2004h";
/// No brackets; a cursor, wrapping and plain text, whatever a frame was about to do.
const LEAVE: &str = "\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[0m\x1b[?2026l";

/// `Some` while a screen owns the terminal. Every write of the screen holds this lock, and none goes out once
/// [`restore`] has taken the value: a frame drawn after that would stay on the terminal beside the shell's prompt.
static HELD: Mutex<Option<SavedTerminal>> = Mutex::new(None);

/// What has to be given back.
struct SavedTerminal {
    input: OwnedFd,
    output: OwnedFd,
    modes: Termios,
    /// How many lines of the live part are above the cursor.
    above: usize,
}

/// Gives the terminal back as it was before a screen was opened on it; does nothing if there is none. For a host that
/// ends the process without closing its screen, from any thread.
pub fn restore() {
    let mut held = lock(&HELD);
    if let Some(SavedTerminal { input, output, modes, above }) = held.take() {
        let up = if above > 0 { format!("\x1b[{above}A") } else { String::new() };
        let _ = write_all(output.as_fd(), format!("{LEAVE}\r{up}\x1b[J").as_bytes());
        let _ = tcsetattr(&input, OptionalActions::Drain, &modes);
    }
}

/// Keys and screen.
pub(crate) struct RawTerminal {
    input: OwnedFd,
    output: OwnedFd,
    modes: Termios,
}

impl RawTerminal {
    /// Opens standard input, and the first of standard output and standard error that is a terminal.
    pub(crate) fn open() -> io::Result<RawTerminal> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let (out, err) = (io::stdout(), io::stderr());
        let output = [out.as_fd(), err.as_fd()].into_iter().find(|fd| isatty(fd));
        let Some(output) = output.filter(|_| isatty(&input)) else {
            let words =
                "a screen needs a terminal for standard input, and for standard output or standard error";
            return Err(io::Error::new(io::ErrorKind::Unsupported, words));
        };
        let output = output.try_clone_to_owned()?;
        let modes = tcgetattr(&input)?;
        let tty = RawTerminal { input, output, modes };
        tty.enter()?;
        Ok(tty)
    }

    /// Takes the terminal.
    pub(crate) fn enter(&self) -> io::Result<()> {
        let held = SavedTerminal {
            input: self.input.try_clone()?,
            output: self.output.try_clone()?,
            modes: self.modes.clone(),
            above: 0,
        };
        *lock(&HELD) = Some(held);
        let mut modes = self.modes.clone();
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
        modes.input_modes -= InputModes::IXON | InputModes::ICRNL | InputModes::INLCR | InputModes::IGNCR;
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&self.input, OptionalActions::Now, &modes)?;
        self.write(ENTER)
    }

    /// Gives it back; the cursor stays where it is.
    pub(crate) fn leave(&self) {
        let mut held = lock(&HELD);
        if held.take().is_some() {
            let _ = write_all(self.output.as_fd(), LEAVE.as_bytes());
            let _ = tcsetattr(&self.input, OptionalActions::Drain, &self.modes);
        }
    }

    pub(crate) fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// Lines and columns.
    pub(crate) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.output) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
            _ => (24, 80),
        }
    }

    /// Writes, unless the terminal was given back meanwhile.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        self.write_held(text, |_| {})
    }

    /// Writes a frame whose live part has `above` lines above the cursor.
    pub(crate) fn write_frame(&self, frame: &str, above: usize) -> io::Result<()> {
        self.write_held(frame, |held| held.above = above)
    }

    fn write_held(&self, text: &str, update: impl FnOnce(&mut SavedTerminal)) -> io::Result<()> {
        let mut held = lock(&HELD);
        let Some(held) = held.as_mut() else { return Ok(()) };
        update(held);
        write_all(self.output.as_fd(), text.as_bytes())
    }

    /// The bytes that are there; none at the end of the input.
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
            // Somebody made it so for a descriptor that we share.
            Err(rustix::io::Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::from_borrowed_fd(output, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The signals that the screen takes, each a flag, and a pipe that says that one was raised.
pub(crate) struct SignalFlags {
    pipe: io::PipeReader,
    flags: Vec<(i32, Arc<AtomicBool>)>,
    ids: Vec<SigId>,
}

impl SignalFlags {
    /// Takes the signals of a terminal, and those that end the process unless the host takes them itself.
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

    /// The signals since this was last asked.
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

/// Whether this process can be stopped and be continued by a shell: one that leads its session has none.
pub(crate) fn can_stop() -> bool {
    rustix::process::getsid(None).ok() != Some(rustix::process::getpid())
}
