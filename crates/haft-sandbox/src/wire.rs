//! What host and helper say to each other, and how it is written.
//!
//! An order is one message on a `SOCK_SEQPACKET` socket, descriptors beside it; one that is too long for a
//! message lies in a file in memory, whose descriptor comes first. Its first part is the scene, so that the
//! helper can compare scenes as they are written. Whatever isn't understood is no order: both ends are the
//! same program, so that is a fault of ours.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::{IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::ports::ProcessExit;
use rustix::io::{Errno, Result};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

use crate::limits;
use crate::mount_plan::{
    BindSource, CoveredName, ExcerptEntry, MountEntry, MountPlan, NetworkAccessKind, ResourceLimit,
};

/// What is to be run in a scene.
#[derive(Debug, Default)]
pub(crate) struct ChildJob {
    pub(crate) argv: Vec<OsString>,
    pub(crate) environment: BTreeMap<OsString, OsString>,
    pub(crate) cwd: PathBuf,
    /// How many descriptors are the child's own.
    pub(crate) own: usize,
    /// Whether the last of them is the program.
    pub(crate) opened: bool,
    /// Whether a spare sandbox like its own is worth making.
    pub(crate) wants_spare: bool,
}

/// What is heard of a job, on a socket of its own.
#[derive(Debug)]
pub(crate) enum ChildReport {
    /// There is a first process, and this descriptor stands for it.
    Made(OwnedFd),
    /// The program runs; and what keeps its view of the file system, where it has one of its own.
    Started(Option<OwnedFd>),
    /// It could not be started, in words.
    Failed(String),
    /// It tried to change this, where nothing can be changed.
    Refused(PathBuf),
    /// The folders that were to be [closed](write_closing) are; or why not.
    Closed(std::result::Result<(), String>),
    /// It ended so; and whether nothing of it is left.
    Ended(ProcessExit, bool),
}

/// What of a scene is the same for many children, as bytes. Descriptors are numbers in the order of
/// [`held_descriptors`].
pub(crate) fn write_plan(scene: &MountPlan) -> Vec<u8> {
    let mut out = WireWriter(Vec::with_capacity(4096));
    out.parts(&scene.parts);
    out.number(match scene.network {
        NetworkAccessKind::Empty => 0,
        NetworkAccessKind::Session => 1,
        NetworkAccessKind::Host => 2,
    });
    out.number(u64::from(scene.apart));
    out.number(scene.rlimits.len() as u64);
    for ResourceLimit { resource, soft, hard } in &scene.rlimits {
        out.number(u64::from(*resource));
        out.number(*soft);
        out.number(*hard);
    }
    out.0
}

/// The descriptors of parts.
pub(crate) fn held_descriptors(parts: &[MountEntry]) -> impl Iterator<Item = BorrowedFd<'_>> {
    parts.iter().filter_map(|part| match part {
        MountEntry::Bind { from: BindSource::Held(held), .. } | MountEntry::StandIn { from: held, .. } => {
            Some(held.as_fd())
        }
        _ => None,
    })
}

/// A scene and a job as one text. Descriptors of what only this child has are counted from 0 again.
pub(crate) fn write_order(scene: &MountPlan, job: &ChildJob) -> Vec<u8> {
    let usual = self::write_plan(scene);
    let mut out = WireWriter(Vec::with_capacity(usual.len() + 8192));
    out.bytes(&usual);
    out.number(held_descriptors(&scene.parts).count() as u64);
    let mut more = WireWriter(Vec::new());
    more.parts(&scene.more);
    out.bytes(&more.0);
    out.0.extend(self::write_job(job));
    out.0
}

/// An order, taken apart.
pub(crate) struct OrderParts<'a> {
    pub(crate) scene: &'a [u8],
    /// How many descriptors are the scene's; those that follow are of what this child has beyond it.
    pub(crate) held: usize,
    pub(crate) more: &'a [u8],
    pub(crate) job: &'a [u8],
}

/// What a sandbox that was made ahead of time has to know: what its child has beyond it, and the job.
pub(crate) fn write_late_order(more: &[u8], job: &[u8]) -> Vec<u8> {
    let mut out = WireWriter(Vec::with_capacity(more.len() + job.len() + 8));
    out.bytes(more);
    out.0.extend(job);
    out.0
}

/// The two again.
pub(crate) fn split_late(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = WireReader(text);
    let more = reader.bytes()?;
    Some((more, reader.0))
}

/// A job alone.
pub(crate) fn write_job(job: &ChildJob) -> Vec<u8> {
    let mut out = WireWriter(Vec::new());
    out.number(job.argv.len() as u64);
    job.argv.iter().for_each(|argument| out.bytes(argument.as_bytes()));
    out.number(job.environment.len() as u64);
    for (name, value) in &job.environment {
        out.bytes(name.as_bytes());
        out.bytes(value.as_bytes());
    }
    out.path(&job.cwd);
    out.number(job.own as u64);
    out.number(u64::from(job.opened));
    out.number(u64::from(job.wants_spare));
    out.0
}

/// Takes an order apart.
pub(crate) fn split_order(order: &[u8]) -> Option<OrderParts<'_>> {
    let mut reader = WireReader(order);
    let scene = reader.bytes()?;
    let held = usize::try_from(reader.number()?).ok()?;
    let more = reader.bytes()?;
    Some(OrderParts { scene, held, more, job: reader.0 })
}

pub(crate) fn read_job(bytes: &[u8]) -> Option<ChildJob> {
    let mut from = WireReader(bytes);
    let count = from.number()?;
    let argv: Option<Vec<OsString>> = (0..count).map(|_| from.text()).collect();
    let count = from.number()?;
    let environment: Option<BTreeMap<OsString, OsString>> =
        (0..count).map(|_| Some((from.text()?, from.text()?))).collect();
    let (cwd, own) = (from.path()?, usize::try_from(from.number()?).ok()?);
    let (opened, wants_spare) = (from.number()? != 0, from.number()? != 0);
    Some(ChildJob { argv: argv?, environment: environment?, cwd, own, opened, wants_spare })
}

pub(crate) fn read_scene(bytes: &[u8], held: Vec<OwnedFd>) -> Option<MountPlan> {
    let mut from = WireReader(bytes);
    let parts = from.parts(held)?;
    let network = match from.number()? {
        0 => NetworkAccessKind::Empty,
        1 => NetworkAccessKind::Session,
        2 => NetworkAccessKind::Host,
        _ => return None,
    };
    let apart = from.number()? != 0;
    let count = from.number()?;
    let rlimit = |_| {
        let resource = u32::try_from(from.number()?).ok()?;
        Some(ResourceLimit { resource, soft: from.number()?, hard: from.number()? })
    };
    let rlimits: Option<Vec<ResourceLimit>> = (0..count).map(rlimit).collect();
    Some(MountPlan { parts, more: Vec::new(), network, apart, rlimits: rlimits? })
}

/// Parts beyond a scene.
pub(crate) fn read_more(bytes: &[u8], held: Vec<OwnedFd>) -> Option<Vec<MountEntry>> {
    WireReader(bytes).parts(held)
}

struct WireWriter(Vec<u8>);

impl WireWriter {
    fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn path(&mut self, path: &Path) {
        self.bytes(path.as_os_str().as_bytes());
    }

    fn parts(&mut self, parts: &[MountEntry]) {
        self.number(parts.len() as u64);
        let mut held = 0;
        for part in parts {
            match part {
                MountEntry::Bind { from, at, writable } => {
                    self.number(0);
                    match from {
                        BindSource::Path(path) => {
                            self.number(0);
                            self.path(path);
                        }
                        BindSource::Held(_) => {
                            self.number(1);
                            self.number(held);
                            held += 1;
                        }
                    }
                    self.path(at);
                    self.number(u64::from(*writable));
                }
                MountEntry::Tmpfs { at, bytes_max, mode } => {
                    self.number(1);
                    self.path(at);
                    self.number(*bytes_max);
                    self.number(u64::from(*mode));
                }
                MountEntry::Overlay { lower, upper, work, at, writable } => {
                    self.number(2);
                    [lower, upper, work, at].into_iter().for_each(|path| self.path(path));
                    self.number(u64::from(*writable));
                }
                MountEntry::Mask { at } => {
                    self.number(3);
                    self.path(at);
                }
                MountEntry::Protect { at } => {
                    self.number(4);
                    self.path(at);
                }
                MountEntry::Pin { at } => {
                    self.number(5);
                    self.path(at);
                }
                MountEntry::Link { at, to } => {
                    self.number(6);
                    self.path(at);
                    self.path(to);
                }
                MountEntry::File { at, content } => {
                    self.number(7);
                    self.path(at);
                    self.bytes(content);
                }
                MountEntry::Proc => self.number(8),
                MountEntry::Dev => self.number(9),
                MountEntry::StandIn { at, .. } => {
                    self.number(10);
                    self.number(held);
                    held += 1;
                    self.path(at);
                }
                MountEntry::Excerpt { at, work, entries } => {
                    self.number(11);
                    self.path(at);
                    self.path(work.as_deref().unwrap_or(Path::new("")));
                    self.number(entries.len() as u64);
                    entries.iter().for_each(|entry| self.entry(entry));
                }
            }
        }
    }
}

impl WireWriter {
    fn entry(&mut self, entry: &ExcerptEntry) {
        self.path(entry.name());
        match entry {
            ExcerptEntry::Host(_) => self.number(0),
            ExcerptEntry::Text { content, .. } => {
                self.number(1);
                self.bytes(content);
            }
        }
    }
}

struct WireReader<'a>(&'a [u8]);

impl<'a> WireReader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<OsString> {
        Some(OsString::from_vec(self.bytes()?.to_vec()))
    }

    fn path(&mut self) -> Option<PathBuf> {
        self.text().map(PathBuf::from)
    }

    fn parts(&mut self, held: Vec<OwnedFd>) -> Option<Vec<MountEntry>> {
        let held: Vec<Arc<OwnedFd>> = held.into_iter().map(Arc::new).collect();
        let count = self.number()?;
        (0..count).map(|_| self.part(&held)).collect()
    }

    fn part(&mut self, held: &[Arc<OwnedFd>]) -> Option<MountEntry> {
        Some(match self.number()? {
            0 => {
                let from = match self.number()? {
                    0 => BindSource::Path(self.path()?),
                    _ => BindSource::Held(held.get(usize::try_from(self.number()?).ok()?)?.clone()),
                };
                MountEntry::Bind { from, at: self.path()?, writable: self.number()? != 0 }
            }
            1 => {
                let (at, bytes_max) = (self.path()?, self.number()?);
                MountEntry::Tmpfs { at, bytes_max, mode: u32::try_from(self.number()?).ok()? }
            }
            2 => MountEntry::Overlay {
                lower: self.path()?,
                upper: self.path()?,
                work: self.path()?,
                at: self.path()?,
                writable: self.number()? != 0,
            },
            3 => MountEntry::Mask { at: self.path()? },
            4 => MountEntry::Protect { at: self.path()? },
            5 => MountEntry::Pin { at: self.path()? },
            6 => MountEntry::Link { at: self.path()?, to: self.path()? },
            7 => MountEntry::File { at: self.path()?, content: self.bytes()?.to_vec() },
            8 => MountEntry::Proc,
            9 => MountEntry::Dev,
            10 => {
                let from = held.get(usize::try_from(self.number()?).ok()?)?.clone();
                MountEntry::StandIn { from, at: self.path()? }
            }
            11 => {
                let (at, work) = (self.path()?, self.path()?);
                let count = self.number()?;
                let entries = (0..count).map(|_| self.entry()).collect::<Option<Arc<[_]>>>()?;
                MountEntry::Excerpt {
                    at,
                    work: Some(work).filter(|work| !work.as_os_str().is_empty()),
                    entries,
                }
            }
            _ => return None,
        })
    }

    fn entry(&mut self) -> Option<ExcerptEntry> {
        let name = self.path()?;
        Some(match self.number()? {
            0 => ExcerptEntry::Host(name),
            _ => ExcerptEntry::Text { name, content: self.bytes()?.to_vec() },
        })
    }
}

/// What a first process is told to close: folders that can't be changed from then on.
pub(crate) fn write_closing(folders: &[PathBuf]) -> Vec<u8> {
    let mut out = WireWriter(b"close".to_vec());
    out.number(folders.len() as u64);
    folders.iter().for_each(|folder| out.path(folder));
    out.0
}

/// The same as it was written; none if it is something else.
pub(crate) fn read_closing(bytes: &[u8]) -> Option<Vec<PathBuf>> {
    let mut reader = WireReader(bytes.strip_prefix(b"close")?);
    let count = reader.number()?;
    (0..count).map(|_| reader.path()).collect()
}

/// What a first process is told to cover again.
pub(crate) fn write_covering<'a>(covers: impl Iterator<Item = &'a CoveredName>) -> Vec<u8> {
    let mut out = WireWriter(b"cover".to_vec());
    for cover in covers {
        out.number(u64::from(cover.hides));
        out.path(&cover.at);
    }
    out.0
}

/// The same as it was written; none if it is something else.
pub(crate) fn read_covering(bytes: &[u8]) -> Option<Vec<CoveredName>> {
    let mut reader = WireReader(bytes.strip_prefix(b"cover")?);
    let mut covers = Vec::new();
    while !reader.0.is_empty() {
        covers.push(CoveredName { hides: reader.number()? != 0, at: reader.path()? });
    }
    Some(covers)
}

impl ChildReport {
    pub(crate) fn send(&self, socket: BorrowedFd<'_>) -> Result<()> {
        let (text, descriptors): (Vec<u8>, &[BorrowedFd<'_>]) = match self {
            ChildReport::Made(first) => (vec![b'm'], &[first.as_fd()]),
            ChildReport::Started(None) => (vec![b's'], &[]),
            ChildReport::Started(Some(view)) => (vec![b's'], &[view.as_fd()]),
            ChildReport::Closed(closed) => {
                let words = closed.as_ref().err().map_or(&[][..], |words| words.as_bytes());
                ([b"l", &words[..words.len().min(limits::WORDS_BYTES_MAX)]].concat(), &[])
            }
            ChildReport::Failed(words) => {
                let words = &words.as_bytes()[..words.len().min(limits::WORDS_BYTES_MAX)];
                ([b"f", words].concat(), &[])
            }
            ChildReport::Refused(path) => {
                let path = path.as_os_str().as_bytes();
                ([b"r", &path[..path.len().min(limits::WORDS_BYTES_MAX)]].concat(), &[])
            }
            ChildReport::Ended(exit, alone) => {
                let (kind, number) = match exit {
                    ProcessExit::Code(code) => (b'c', *code),
                    ProcessExit::Signal(signal) => (b'k', *signal),
                    ProcessExit::TimedOut | ProcessExit::Cancelled | ProcessExit::Killed(_) => {
                        (b'k', libc::SIGKILL)
                    }
                };
                let mut text = vec![b'e', kind, u8::from(*alone)];
                text.extend(number.to_le_bytes());
                (text, &[])
            }
        };
        send_message(socket, &text, descriptors)
    }

    /// The next report; none if there will be no more.
    pub(crate) fn receive(socket: BorrowedFd<'_>, flags: RecvFlags) -> Result<Option<ChildReport>> {
        let mut buffer = [0; limits::WORDS_BYTES_MAX + 1];
        let (count, mut descriptors) = receive_message(socket, &mut buffer, flags)?;
        let report = match (buffer[..count].split_first(), descriptors.pop_front()) {
            (None, _) => return Ok(None),
            (Some((b'm', _)), Some(first)) => ChildReport::Made(first),
            (Some((b's', _)), view) => ChildReport::Started(view),
            (Some((b'l', [])), _) => ChildReport::Closed(Ok(())),
            (Some((b'l', words)), _) => ChildReport::Closed(Err(String::from_utf8_lossy(words).into_owned())),
            (Some((b'f', words)), _) => ChildReport::Failed(String::from_utf8_lossy(words).into_owned()),
            (Some((b'r', path)), _) => ChildReport::Refused(OsString::from_vec(path.to_vec()).into()),
            (Some((b'e', [kind, alone, number @ ..])), _) => {
                let number = i32::from_le_bytes(number.try_into().map_err(|_| Errno::PROTO)?);
                let exit =
                    if *kind == b'c' { ProcessExit::Code(number) } else { ProcessExit::Signal(number) };
                ChildReport::Ended(exit, *alone != 0)
            }
            _ => return Err(Errno::PROTO),
        };
        Ok(Some(report))
    }
}

/// Sends one message; one that is too long lies in a file.
pub(crate) fn send_long(socket: BorrowedFd<'_>, text: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
    if text.len() < limits::MESSAGE_BYTES_MAX {
        return send_message(socket, &[b"t", text].concat(), descriptors);
    }
    let mut file = std::fs::File::from(rustix::fs::memfd_create("order", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(text).map_err(|_| Errno::NOSPC)?;
    let all: Vec<BorrowedFd<'_>> = [file.as_fd()].into_iter().chain(descriptors.iter().copied()).collect();
    send_message(socket, b"f", &all)
}

/// The next message; none if there will be no more.
pub(crate) fn receive_long(socket: BorrowedFd<'_>) -> Result<Option<(Vec<u8>, VecDeque<OwnedFd>)>> {
    let mut buffer = vec![0; limits::MESSAGE_BYTES_MAX + 1];
    let (count, mut descriptors) = receive_message(socket, &mut buffer, RecvFlags::empty())?;
    buffer.truncate(count);
    match buffer.first() {
        None => Ok(None),
        Some(b't') => {
            buffer.remove(0);
            Ok(Some((buffer, descriptors)))
        }
        Some(_) => {
            use std::io::Seek as _;
            let mut file = std::fs::File::from(descriptors.pop_front().ok_or(Errno::PROTO)?);
            let mut text = Vec::new();
            let read = file.rewind().and_then(|()| file.read_to_end(&mut text));
            read.map_err(|_| Errno::IO)?;
            Ok(Some((text, descriptors)))
        }
    }
}

pub(crate) fn send_message(
    socket: BorrowedFd<'_>,
    text: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(limits::DESCRIPTORS_SENT_MAX))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOBIG);
    }
    loop {
        match rustix::net::sendmsg(socket, &[IoSlice::new(text)], &mut beside, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            done => return done.map(drop),
        }
    }
}

/// Sends one message, if there is room for it now.
pub(crate) fn send_at_once(socket: BorrowedFd<'_>, text: &[u8]) -> Result<()> {
    rustix::net::send(socket, text, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).map(drop)
}

pub(crate) fn receive_message(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> Result<(usize, VecDeque<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(limits::DESCRIPTORS_SENT_MAX))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match rustix::net::recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut beside, flags) {
            Err(Errno::INTR) => {}
            // The other end was closed with something of ours unread.
            Err(Errno::CONNRESET) => return Ok((0, VecDeque::new())),
            done => break done?,
        }
    };
    let mut descriptors = VecDeque::new();
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(sent) = message {
            descriptors.extend(sent);
        }
    }
    Ok((received.bytes, descriptors))
}
