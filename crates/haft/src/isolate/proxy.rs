//! The ports that a tool has in its own process: each method is a request to the host.
//!
//! The access that comes with each operation is not sent. The host has the one that counts; the copy in here is for
//! tools that look at it.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::frames::Fault;
use super::link::{Answer, Link, Ticket, Unanswered};
use super::wire::{Ask, Packer, Reply, Unpacker};
use crate::files::error::show;
use crate::files::tree::must_be_a_name;
use crate::files::{
    Access, Entry, FileError, FileErrorKind, Files, Kind, Metadata, OpenDir, OpenFile, ReadFile, WriteMode,
    Written,
};
use crate::future::{BoxFuture, wait};
use crate::limits;
use crate::ports::{self, Approval, Asker, UserQuestion};

/// The host's files.
pub(super) struct RemoteFiles(pub(super) Arc<Link>);

impl RemoteFiles {
    async fn ask(&self, path: &Path, ask: impl FnOnce(&mut Packer) -> Ask) -> Result<Granted, FileError> {
        ask_file(&self.0, path, ask).await
    }
}

/// An answer that is not an error.
type Granted = (Ticket, Answer);

async fn ask_file(
    link: &Arc<Link>,
    path: &Path,
    ask: impl FnOnce(&mut Packer) -> Ask,
) -> Result<Granted, FileError> {
    match link.ask(ask).await {
        Ok((_, Answer { reply: Reply::Failed { kind, text }, tail })) => {
            let text = Unpacker::new(&tail).text(text).map_err(|fault| misunderstood(path, fault))?;
            Err(FileError::new(kind, text))
        }
        Ok(granted) => Ok(granted),
        Err(Unanswered::Over) => {
            let text = format!("`{}` can't be reached: the call is over", show(path));
            Err(FileError::new(FileErrorKind::Io, text))
        }
        Err(Unanswered::TooLarge(bytes)) => {
            let max = limits::ISOLATE_FRAME_BYTES_MAX;
            let text = format!(
                "`{}` can't be written: {bytes} bytes are more than the {max} that an isolated tool can hand over",
                show(path)
            );
            Err(FileError::new(FileErrorKind::TooLarge, text))
        }
    }
}

fn misunderstood(path: &Path, fault: Fault) -> FileError {
    let text = format!("`{}`: the answer of the host is not understood", show(path));
    let words = match fault {
        Fault::Garbage(words) => words,
        other => format!("{other:?}"),
    };
    FileError::new(FileErrorKind::Io, text).with_source(std::io::Error::other(words))
}

fn unexpected(path: &Path) -> FileError {
    misunderstood(path, Fault::garbage("an answer to another question"))
}

fn done(path: &Path, (_, answer): Granted) -> Result<(), FileError> {
    match answer.reply {
        Reply::Done => Ok(()),
        _ => Err(unexpected(path)),
    }
}

fn written(path: &Path, (_, answer): Granted) -> Result<Written, FileError> {
    match answer.reply {
        Reply::Written(written) => Ok(written),
        _ => Err(unexpected(path)),
    }
}

impl Files for RemoteFiles {
    fn open<'a>(
        &'a self,
        _: &'a Access,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<Box<dyn OpenFile>, FileError>> {
        Box::pin(async move {
            let file = RemoteFile::open(&self.0, path).await?;
            Ok(Box::new(file) as Box<dyn OpenFile>)
        })
    }

    fn metadata<'a>(&'a self, _: &'a Access, path: &'a Path) -> BoxFuture<'a, Result<Metadata, FileError>> {
        Box::pin(async move {
            let (_, answer) = self.ask(path, |packer| Ask::Metadata(packer.path(path))).await?;
            match answer.reply {
                Reply::Metadata(metadata) => Ok(metadata.into()),
                _ => Err(unexpected(path)),
            }
        })
    }

    fn list<'a>(&'a self, _: &'a Access, path: &'a Path) -> BoxFuture<'a, Result<Vec<Entry>, FileError>> {
        Box::pin(list(&self.0, path))
    }

    fn open_dir<'a>(
        &'a self,
        _: &'a Access,
        path: &'a Path,
    ) -> BoxFuture<'a, Result<Box<dyn OpenDir>, FileError>> {
        Box::pin(async move {
            let dir = RemoteDir::open(self.0.clone(), path.into()).await?;
            Ok(Box::new(dir) as Box<dyn OpenDir>)
        })
    }

    fn write<'a>(
        &'a self,
        _: &'a Access,
        path: &'a Path,
        bytes: &'a [u8],
        how: WriteMode,
    ) -> BoxFuture<'a, Result<Written, FileError>> {
        Box::pin(async move {
            let ask =
                |packer: &mut Packer| Ask::Write { path: packer.path(path), bytes: packer.put(bytes), how };
            written(path, self.ask(path, ask).await?)
        })
    }

    fn swap<'a>(
        &'a self,
        _: &'a Access,
        path: &'a Path,
        old: Bytes,
        new: Bytes,
    ) -> BoxFuture<'a, Result<Written, FileError>> {
        Box::pin(async move {
            let ask = |packer: &mut Packer| Ask::Swap {
                path: packer.path(path),
                old: packer.put(&old),
                new: packer.put(&new),
            };
            written(path, self.ask(path, ask).await?)
        })
    }

    fn remove<'a>(
        &'a self,
        _: &'a Access,
        path: &'a Path,
        old: Option<&'a [u8]>,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        Box::pin(async move {
            let ask = |packer: &mut Packer| {
                let path = packer.path(path);
                Ask::Remove { path, old: old.map(|old| packer.put(old)) }
            };
            done(path, self.ask(path, ask).await?)
        })
    }

    fn rename<'a>(
        &'a self,
        _: &'a Access,
        from: &'a Path,
        to: &'a Path,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        Box::pin(async move {
            let ask = |packer: &mut Packer| Ask::Rename { from: packer.path(from), to: packer.path(to) };
            done(from, self.ask(from, ask).await?)
        })
    }

    fn create_dir<'a>(&'a self, _: &'a Access, path: &'a Path) -> BoxFuture<'a, Result<(), FileError>> {
        Box::pin(async move { done(path, self.ask(path, |packer| Ask::CreateDir(packer.path(path))).await?) })
    }
}

async fn list(link: &Arc<Link>, path: &Path) -> Result<Vec<Entry>, FileError> {
    let (_, answer) = ask_file(link, path, |packer| Ask::List(packer.path(path))).await?;
    let Reply::Entries(entries) = answer.reply else { return Err(unexpected(path)) };
    Unpacker::new(&answer.tail).entries(&entries).map_err(|fault| misunderstood(path, fault))
}

/// A directory of the host, as it was listed when it was opened.
///
/// The host has no descriptor of it: each entry is asked for by its path, and held against the access of this call
/// like every path. So nothing leads out of what was granted; what was listed as a link is not opened here.
struct RemoteDir {
    link: Arc<Link>,
    path: Box<Path>,
    /// Sorted by name, as the host lists them.
    entries: Vec<Entry>,
}

impl RemoteDir {
    async fn open(link: Arc<Link>, path: Box<Path>) -> Result<RemoteDir, FileError> {
        let entries = list(&link, &path).await?;
        Ok(RemoteDir { link, path, entries })
    }

    /// The path of an entry that was no link.
    fn child(&self, name: &OsStr) -> Result<Box<Path>, FileError> {
        must_be_a_name(name, &self.path)?;
        let path = self.path.join(name);
        let found = self.entries.binary_search_by(|entry| entry.name.as_os_str().cmp(name));
        if found.is_ok_and(|at| self.entries[at].kind == Kind::Link) {
            let text = format!("`{}` is a link, and links are not followed here", show(&path));
            return Err(FileError::new(FileErrorKind::NotAFile, text));
        }
        Ok(path.into())
    }
}

impl OpenDir for RemoteDir {
    fn each(&self, show: &mut dyn FnMut(&OsStr, Kind)) -> Result<(), FileError> {
        self.entries.iter().for_each(|entry| show(&entry.name, entry.kind));
        Ok(())
    }

    fn open_dir(&self, name: &OsStr) -> Result<Box<dyn OpenDir>, FileError> {
        let dir = wait(RemoteDir::open(self.link.clone(), self.child(name)?))?;
        Ok(Box::new(dir))
    }

    fn open(&self, name: &OsStr) -> Result<Box<dyn ReadFile>, FileError> {
        Ok(Box::new(wait(RemoteFile::open(&self.link, &self.child(name)?))?))
    }

    fn metadata(&self, name: &OsStr) -> Result<Metadata, FileError> {
        let path = self.child(name)?;
        let (_, answer) = wait(ask_file(&self.link, &path, |packer| Ask::Metadata(packer.path(&path))))?;
        match answer.reply {
            Reply::Metadata(metadata) => Ok(metadata.into()),
            _ => Err(unexpected(&path)),
        }
    }
}

/// A file that the host has open for us, until this is dropped. The offset is kept here.
struct RemoteFile {
    ticket: Ticket,
    path: Box<Path>,
    metadata: Metadata,
    offset: u64,
}

impl RemoteFile {
    async fn open(link: &Arc<Link>, path: &Path) -> Result<RemoteFile, FileError> {
        let (ticket, answer) = ask_file(link, path, |packer| Ask::Open(packer.path(path))).await?;
        let Reply::Opened(metadata) = answer.reply else { return Err(unexpected(path)) };
        Ok(RemoteFile { ticket: ticket.keep(), path: path.into(), metadata: metadata.into(), offset: 0 })
    }
}

impl ReadFile for RemoteFile {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl io::Read for RemoteFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let max = usize::try_from(self.metadata.len.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let bytes = wait(OpenFile::read(self, buffer.len().min(max))).map_err(io::Error::other)?;
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }
}

impl OpenFile for RemoteFile {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn read<'a>(&'a mut self, max: usize) -> BoxFuture<'a, Result<Vec<u8>, FileError>> {
        Box::pin(async move {
            if max == 0 {
                return Ok(Vec::new());
            }
            let ask = Ask::Read { file: self.ticket.id(), offset: self.offset, max };
            let (_, answer) = ask_file(self.ticket.link(), &self.path, |_| ask).await?;
            let Reply::Bytes(_) = answer.reply else { return Err(unexpected(&self.path)) };
            // The whole tail, as it is.
            let bytes = answer.tail;
            self.offset = self.offset.saturating_add(bytes.len() as u64);
            Ok(bytes)
        })
    }

    fn seek(&mut self, offset: u64) {
        self.offset = offset;
    }
}

/// The host's user.
pub(super) struct RemoteAsker(pub(super) Arc<Link>);

impl Asker for RemoteAsker {
    /// Approvals are the engine's, in the other process: from here the answer is no.
    fn approve<'a>(&'a self, _: &'a Approval) -> BoxFuture<'a, ports::Answer> {
        Box::pin(std::future::ready(ports::Answer::No))
    }

    fn question<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(async move {
            // What isn't answered was declined.
            let (_, answer) = self.0.ask(|_| question.into()).await.ok()?;
            let Reply::Chosen(chosen) = answer.reply else { return None };
            let mut tail = Unpacker::new(&answer.tail);
            chosen?.into_iter().map(|cut| tail.text(cut).map(str::to_owned).ok()).collect()
        })
    }
}
