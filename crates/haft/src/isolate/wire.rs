//! What is said over the pipe, and how values of this crate are written in it.
//!
//! A message has a head, which is one of the serde types here, and a tail of bytes. Whatever may be long or is not
//! UTF-8 (paths, names, texts, pictures, files) is in the tail, in order, and the head has a [`Cut`] in its place: how
//! many bytes are its own. The public types stay free of serde, and what may cross the pipe is what is listed here:
//! the source of an error, for one, does not.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use haft_scheduler::Cause;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::frames::{Fault, TooLarge};
use crate::content::{Blob, Content, Output, ResourceLink};
use crate::error::{ErrorKind, ToolError};
use crate::files::{
    Access, Entry, Extent, FileError, FileErrorKind, FileId, Kind, Metadata, Root, WriteMode, Written,
};
use crate::limits;
use crate::ports::{Choice, UserQuestion};

/// How many bytes of the tail belong here.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Cut(usize);

/// What the parent says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToChild {
    /// The call; comes first, and once.
    Call(Call),
    /// Nobody wants the result any more.
    Cancel(Cause),
    /// The answer to a request.
    Reply { id: u64, reply: Reply },
}

/// What the child says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToParent {
    /// A request, with an id that was never used before.
    Ask {
        id: u64,
        ask: Ask,
    },
    /// The answer to this request, or the file that it opened, isn't needed any more.
    Forget(u64),
    Progress {
        fraction: Option<f64>,
        message: Option<String>,
    },
    Partial(String),
    Warning(String),
    /// The result; comes last, and once.
    Done(Outcome),
}

/// One call, as the child has to know it.
#[derive(Serialize, Deserialize)]
pub(super) struct Call {
    pub(super) session: String,
    pub(super) agent: String,
    pub(super) turn: u64,
    pub(super) index: usize,
    pub(super) id: String,
    /// The name under which the tool was called, and the one under which it is found.
    pub(super) called: String,
    pub(super) tool: String,
    /// Whether there is somebody to ask, and somebody to tell.
    pub(super) asker: bool,
    pub(super) watched: bool,
    pub(super) cwd: Cut,
    pub(super) dirs: Vec<Cut>,
    pub(super) readable: Vec<Place>,
    pub(super) read: Vec<Place>,
    pub(super) write: Vec<Place>,
    pub(super) input: Cut,
}

/// One granted place.
#[derive(Serialize, Deserialize)]
pub(super) struct Place {
    extent: Extent,
    path: Cut,
}

/// What a child asks for.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ask {
    /// Opens a file, which then has the id of the request.
    Open(Cut),
    Read {
        file: u64,
        offset: u64,
        max: usize,
    },
    Metadata(Cut),
    List(Cut),
    Write {
        path: Cut,
        bytes: Cut,
        #[serde(with = "WriteModeForm")]
        how: WriteMode,
    },
    Swap {
        path: Cut,
        old: Cut,
        new: Cut,
    },
    Remove {
        path: Cut,
        old: Option<Cut>,
    },
    Rename {
        from: Cut,
        to: Cut,
    },
    CreateDir(Cut),
    Question {
        text: String,
        choices: Vec<(String, Option<String>)>,
        several: bool,
    },
}

/// What the parent answers.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    Done,
    Opened(MetadataForm),
    Bytes(Cut),
    Metadata(MetadataForm),
    Entries(Vec<(Cut, KindForm)>),
    Written(Written),
    Chosen(Option<Vec<Cut>>),
    Failed {
        #[serde(with = "FileErrorKindForm")]
        kind: FileErrorKind,
        text: Cut,
    },
}

/// How a call ended.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Output(Vec<Block>),
    Error {
        #[serde(with = "ErrorKindForm")]
        kind: ErrorKind,
        message: Cut,
        retryable: bool,
        semantic: bool,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Block {
    Text(Cut),
    Image(BlobForm),
    Document(BlobForm),
    Structured(Cut),
    Link { uri: Cut, name: Cut, media_type: Option<String> },
}

#[derive(Serialize, Deserialize)]
pub(super) struct BlobForm {
    media_type: String,
    name: Option<String>,
    bytes: Cut,
}

#[derive(Serialize, Deserialize)]
pub(super) struct MetadataForm {
    kind: KindForm,
    len: u64,
    /// Whether it lies before 1970, and how far away from it, in seconds and nanoseconds.
    modified: Option<(bool, u64, u32)>,
    device: u64,
    inode: u64,
    mode: Option<u32>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct KindForm(#[serde(with = "KindNames")] Kind);

// Remote forms: the compiler refuses one that lacks a variant.

#[derive(Serialize, Deserialize)]
#[serde(remote = "Kind", rename_all = "snake_case")]
enum KindNames {
    File,
    Directory,
    Link,
    Other,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "WriteMode", rename_all = "snake_case")]
enum WriteModeForm {
    Create,
    CreateAs(u32),
    Replace,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "FileErrorKind", rename_all = "snake_case")]
enum FileErrorKindForm {
    NotFound,
    NotGranted,
    NotAFile,
    IsDirectory,
    NotADirectory,
    AlreadyExists,
    TooLarge,
    NotText,
    Changed,
    NoSpace,
    Io,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ErrorKind", rename_all = "snake_case")]
enum ErrorKindForm {
    UnknownTool,
    NotInteractive,
    InvalidInput,
    Blocked,
    HookFailed,
    Denied,
    Rejected,
    NotRecorded,
    Failed,
    TimedOut,
    Cancelled,
    Panicked,
}

/// Collects a tail.
#[derive(Default)]
pub(super) struct Packer(Vec<u8>);

impl Packer {
    pub(super) fn put(&mut self, bytes: &[u8]) -> Cut {
        self.0.extend_from_slice(bytes);
        Cut(bytes.len())
    }

    pub(super) fn path(&mut self, path: &Path) -> Cut {
        self.put(path.as_os_str().as_bytes())
    }

    pub(super) fn places(&mut self, roots: &[Root]) -> Vec<Place> {
        roots.iter().map(|root| Place { extent: root.extent, path: self.path(&root.path) }).collect()
    }

    pub(super) fn failed(&mut self, error: &FileError) -> Reply {
        Reply::Failed { kind: error.kind(), text: self.put(error.to_string().as_bytes()) }
    }

    pub(super) fn entries(&mut self, entries: &[Entry]) -> Reply {
        let entry = |entry: &Entry| (self.put(entry.name.as_bytes()), KindForm(entry.kind));
        Reply::Entries(entries.iter().map(entry).collect())
    }

    pub(super) fn output(&mut self, output: &Output) -> Result<Outcome, TooLarge> {
        let mut json_bytes = 0;
        let mut blocks = Vec::with_capacity(output.blocks().len());
        for block in output.blocks() {
            blocks.push(match block {
                Content::Text(text) => Block::Text(self.put(text.as_bytes())),
                Content::Image(blob) => Block::Image(self.blob(blob)),
                Content::Document(blob) => Block::Document(self.blob(blob)),
                Content::Structured(value) => {
                    let text = value.to_string();
                    json_bytes += text.len();
                    if json_bytes > limits::ISOLATE_JSON_BYTES_MAX {
                        return Err(TooLarge(json_bytes));
                    }
                    Block::Structured(self.put(text.as_bytes()))
                }
                Content::Link(link) => Block::Link {
                    uri: self.put(link.uri.as_bytes()),
                    name: self.put(link.name.as_bytes()),
                    media_type: link.media_type.as_deref().map(str::to_owned),
                },
            });
        }
        Ok(Outcome::Output(blocks))
    }

    fn blob(&mut self, blob: &Blob) -> BlobForm {
        let (media_type, name) = (blob.media_type.to_string(), blob.name.as_deref().map(str::to_owned));
        BlobForm { media_type, name, bytes: self.put(&blob.bytes) }
    }

    pub(super) fn error(&mut self, error: &ToolError) -> Outcome {
        Outcome::Error {
            kind: error.kind(),
            message: self.put(error.message().as_bytes()),
            retryable: error.is_retryable(),
            semantic: error.is_semantic(),
        }
    }

    pub(super) fn into_tail(self) -> Vec<u8> {
        self.0
    }
}

/// Cuts a tail, in the order in which it was collected.
pub(super) struct Unpacker<'a>(&'a [u8]);

impl<'a> Unpacker<'a> {
    pub(super) fn new(tail: &'a [u8]) -> Unpacker<'a> {
        Unpacker(tail)
    }

    pub(super) fn bytes(&mut self, cut: Cut) -> Result<&'a [u8], Fault> {
        let Some((bytes, rest)) = self.0.split_at_checked(cut.0) else {
            return Err(Fault::garbage("a tail that is too short"));
        };
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn text(&mut self, cut: Cut) -> Result<&'a str, Fault> {
        std::str::from_utf8(self.bytes(cut)?).map_err(|_| Fault::garbage("text that is not UTF-8"))
    }

    pub(super) fn json(&mut self, cut: Cut) -> Result<Value, Fault> {
        if cut.0 > limits::ISOLATE_JSON_BYTES_MAX {
            return Err(Fault::TooLarge(cut.0));
        }
        serde_json::from_slice(self.bytes(cut)?).map_err(|error| Fault::Garbage(error.to_string()))
    }

    pub(super) fn path(&mut self, cut: Cut) -> Result<PathBuf, Fault> {
        Ok(PathBuf::from(OsStr::from_bytes(self.bytes(cut)?)))
    }

    pub(super) fn places(&mut self, places: &[Place]) -> Result<Vec<Root>, Fault> {
        let root = |place: &Place| Ok(Root { path: self.path(place.path)?, extent: place.extent });
        places.iter().map(root).collect()
    }

    pub(super) fn access(&mut self, read: &[Place], write: &[Place]) -> Result<Access, Fault> {
        Ok(Access { read: self.places(read)?, write: self.places(write)?, ..Access::default() })
    }

    pub(super) fn entries(&mut self, entries: &[(Cut, KindForm)]) -> Result<Vec<Entry>, Fault> {
        let entry = |(name, kind): &(Cut, KindForm)| {
            Ok(Entry { name: OsStr::from_bytes(self.bytes(*name)?).to_owned(), kind: kind.0 })
        };
        entries.iter().map(entry).collect()
    }

    /// The end of a call. Only what a tool could have said itself is taken over: no cause, and no end of the turn.
    pub(super) fn outcome(&mut self, outcome: Outcome) -> Result<Result<Output, ToolError>, Fault> {
        let blocks = match outcome {
            Outcome::Output(blocks) => blocks,
            Outcome::Error { kind, message, retryable, semantic } => {
                let message = self.text(message)?;
                let error = match kind {
                    ErrorKind::InvalidInput if semantic => ToolError::senseless(message),
                    kind => ToolError::of(kind, message),
                };
                return Ok(Err(if retryable { error.retryable() } else { error }));
            }
        };
        let mut json_bytes = 0;
        let mut read = |block: Block| {
            Ok(match block {
                Block::Text(text) => Content::text(self.text(text)?),
                Block::Image(blob) => Content::Image(self.blob(blob)?),
                Block::Document(blob) => Content::Document(self.blob(blob)?),
                Block::Structured(value) => {
                    json_bytes += value.0;
                    if json_bytes > limits::ISOLATE_JSON_BYTES_MAX {
                        return Err(Fault::TooLarge(json_bytes));
                    }
                    Content::Structured(self.json(value)?)
                }
                Block::Link { uri, name, media_type } => Content::Link(ResourceLink {
                    uri: self.text(uri)?.into(),
                    name: self.text(name)?.into(),
                    media_type: media_type.map(Arc::from),
                }),
            })
        };
        let blocks: Result<Vec<_>, Fault> = blocks.into_iter().map(&mut read).collect();
        Ok(Ok(Output::new(blocks?)))
    }

    fn blob(&mut self, blob: BlobForm) -> Result<Blob, Fault> {
        let bytes = self.bytes(blob.bytes)?.into();
        Ok(Blob { media_type: blob.media_type.into(), bytes, name: blob.name.map(Arc::from) })
    }
}

impl From<&Metadata> for MetadataForm {
    fn from(metadata: &Metadata) -> MetadataForm {
        let modified = metadata.modified.map(|time| {
            let (before, distance) = match time.duration_since(SystemTime::UNIX_EPOCH) {
                Ok(after) => (false, after),
                Err(error) => (true, error.duration()),
            };
            (before, distance.as_secs(), distance.subsec_nanos())
        });
        let FileId { device, inode } = metadata.id;
        MetadataForm {
            kind: KindForm(metadata.kind),
            len: metadata.len,
            modified,
            device,
            inode,
            mode: metadata.mode,
        }
    }
}

impl From<MetadataForm> for Metadata {
    fn from(form: MetadataForm) -> Metadata {
        let modified = form.modified.and_then(|(before, seconds, nanos)| {
            let distance = Duration::from_secs(seconds).checked_add(Duration::from_nanos(nanos.into()))?;
            let epoch = SystemTime::UNIX_EPOCH;
            if before { epoch.checked_sub(distance) } else { epoch.checked_add(distance) }
        });
        let id = FileId { device: form.device, inode: form.inode };
        Metadata { kind: form.kind.0, len: form.len, modified, id, mode: form.mode }
    }
}

impl From<&UserQuestion> for Ask {
    fn from(question: &UserQuestion) -> Ask {
        let choice = |choice: &Choice| (choice.label.clone(), choice.description.clone());
        let choices = question.choices.iter().map(choice).collect();
        Ask::Question { text: question.text.clone(), choices, several: question.several }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn there_and_back(outcome: Result<Output, ToolError>) -> Result<Output, ToolError> {
        let mut packer = Packer::default();
        let form = match &outcome {
            Ok(output) => packer.output(output).unwrap(),
            Err(error) => packer.error(error),
        };
        let head: Outcome = serde_json::from_slice(&serde_json::to_vec(&form).unwrap()).unwrap();
        Unpacker::new(&packer.into_tail()).outcome(head).unwrap()
    }

    proptest! {
        #[test]
        fn numbers_keep_their_last_bit(bits in any::<u64>()) {
            let number = f64::from_bits(bits);
            let output = Output::new(vec![Content::Structured(Value::from(number))]);
            prop_assert_eq!(there_and_back(Ok(output.clone())).unwrap(), output);
        }
    }

    #[test]
    fn every_kind_of_error_comes_through() {
        let kinds = [
            ErrorKind::UnknownTool,
            ErrorKind::NotInteractive,
            ErrorKind::InvalidInput,
            ErrorKind::Blocked,
            ErrorKind::HookFailed,
            ErrorKind::Denied,
            ErrorKind::Rejected,
            ErrorKind::NotRecorded,
            ErrorKind::Failed,
            ErrorKind::TimedOut,
            ErrorKind::Cancelled,
            ErrorKind::Panicked,
        ];
        for kind in kinds {
            for error in [ToolError::of(kind, "words"), ToolError::of(kind, "words").retryable()] {
                let back = there_and_back(Err(error.clone())).unwrap_err();
                assert_eq!(format!("{back:?}"), format!("{error:?}"));
                assert_eq!(back.is_retryable(), error.is_retryable());
            }
        }
        // A message that was cut once is not cut again.
        let long = ToolError::new("ü".repeat(limits::ERROR_CHARS_MAX * 2));
        assert_eq!(there_and_back(Err(long.clone())).unwrap_err().message(), long.message());
        // What a tool can't say of itself is not taken from a child either.
        let ending = ToolError::cancelled(Cause::User, "words").ending_turn();
        let back = there_and_back(Err(ending)).unwrap_err();
        assert_eq!((back.cause(), back.ends_turn()), (None, false));
    }

    #[test]
    fn times_before_1970_and_without_a_date_come_through() {
        let id = FileId { device: u64::MAX, inode: 1 };
        let before = SystemTime::UNIX_EPOCH.checked_sub(Duration::new(5, 7));
        for modified in [None, before, SystemTime::UNIX_EPOCH.checked_add(Duration::new(5, 7))] {
            let metadata = Metadata { kind: Kind::Directory, len: u64::MAX, modified, id, mode: Some(0o750) };
            let form: MetadataForm =
                serde_json::from_slice(&serde_json::to_vec(&MetadataForm::from(&metadata)).unwrap()).unwrap();
            assert_eq!(Metadata::from(form), metadata);
        }
    }
}
