//! The index itself: which words stand where, and how much each says.
//!
//! BM25 over four fields in one: a word in a name counts more than one in a description. What a word adds to
//! a tool's score doesn't depend on the query, so it is worked out once; a search only adds up. Common words
//! have long lists and say little; they are left out where a rarer one is asked for as well.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use serde_json::Value;

use super::words::each_word;
use crate::limits::{SEARCH_QUERY_CHARS_MAX, SEARCH_WORDS_MAX};
use crate::text::truncate_chars;

/// How much a word counts, by where it stands.
const NAME: f32 = 4.0;
const HINT: f32 = 2.0;
const DESCRIPTION: f32 = 1.0;
const ARGUMENT: f32 = 1.0;
/// How soon a word that stands there again adds nothing.
const K1: f32 = 1.2;
/// How much a long text is held against it.
const B: f32 = 0.4;
/// How many words that begin like one that nobody has stand in for it, and how much they count.
const PREFIX_WORDS_MAX: usize = 16;
const PREFIX_WEIGHT: f32 = 0.5;

/// A tool, as the search sees it.
#[derive(Debug, Clone, Copy)]
pub struct SearchableTool<'a> {
    /// Its name.
    pub name: &'a str,
    /// Words that its author would search it by.
    pub hint: &'a str,
    /// What it does.
    pub description: &'a str,
    /// The schema of its input: names of arguments are searched too.
    pub input_schema: &'a Value,
}

/// An index over tools. Made once for a set of tools, never changed.
///
/// ```
/// use haft::search::{SearchIndex, SearchableTool};
///
/// let schema = serde_json::json!({"type": "object", "properties": {"city": {"type": "string"}}});
/// let tool = |name, description| SearchableTool { name, hint: "", description, input_schema: &schema };
/// let index = SearchIndex::new([tool("get_weather", "Forecasts rain."), tool("send_mail", "Sends a letter.")]);
/// assert_eq!(index.find("will it rain?", 5), [0]);
/// assert_eq!(index.find("+mail rain", 5), [1]);
/// assert_eq!(index.find("send_mail", 5)[0], 1);
/// ```
pub struct SearchIndex {
    /// The number of a word.
    words: WordNumbers,
    /// All words in order, for those that begin like another.
    sorted: Vec<(Box<str>, u32)>,
    /// Where each word stands, and what it adds to the score there: one list after the other.
    places: Vec<(u32, f32)>,
    /// Where the list of each word begins; and the end of the last.
    begins: Vec<u32>,
    names: HashMap<Box<str>, u32, WordHasherBuilder>,
    tools: usize,
}

impl SearchIndex {
    /// An index over these tools.
    pub fn new<'a>(tools: impl IntoIterator<Item = SearchableTool<'a>>) -> SearchIndex {
        let mut making = IndexBuilder::default();
        let mut names = HashMap::with_hasher(WordHasherBuilder);
        let mut tools_seen = 0;
        for tool in tools {
            names.entry(tool.name.to_lowercase().into_boxed_str()).or_insert(tools_seen);
            making.add(tools_seen, tool);
            tools_seen += 1;
        }
        let IndexBuilder { words, entries, lengths, .. } = making;
        let (mut places, begins) = by_word(&entries, words.count as usize);
        let count = tools_seen as f32;
        let mean = (lengths.iter().sum::<f32>() / count.max(1.0)).max(1.0);
        for word in 0..words.count as usize {
            let places = &mut places[begins[word] as usize..begins[word + 1] as usize];
            let here = places.len() as f32;
            let rarity = (1.0 + (count - here + 0.5) / (here + 0.5)).ln();
            for (tool, weight) in places {
                let length = 1.0 - B + B * lengths[*tool as usize] / mean;
                *weight = rarity * (*weight * (K1 + 1.0)) / (*weight + K1 * length);
            }
        }
        let sorted = words.sorted();
        SearchIndex { words, sorted, places, begins, names, tools: tools_seen as usize }
    }

    /// Where a word stands.
    fn places(&self, word: u32) -> &[(u32, f32)] {
        &self.places[self.begins[word as usize] as usize..self.begins[word as usize + 1] as usize]
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.tools
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools == 0
    }

    /// The position of the tool with this name; upper and lower case are the same.
    pub fn named(&self, name: &str) -> Option<usize> {
        self.names.get(name.to_lowercase().as_str()).map(|tool| *tool as usize)
    }

    /// The positions of the tools that fit best, best first. An exact name comes before everything else; each
    /// `+word` has to be there; the other words are weighed.
    pub fn find(&self, query: &str, most: usize) -> Vec<usize> {
        let query = truncate_chars(query, SEARCH_QUERY_CHARS_MAX).trim();
        let exact = self.named(query);
        let mut scores = vec![0.0f32; self.tools];
        let mut required: Vec<Vec<u32>> = Vec::new();
        let mut wanted: Vec<Vec<(u32, f32)>> = Vec::new();
        let mut buffer = String::new();
        for part in query.split_whitespace() {
            let (must, part) = part.strip_prefix('+').map_or((false, part), |rest| (true, rest));
            each_word(part, &mut buffer, |word| {
                if wanted.len() < SEARCH_WORDS_MAX {
                    let like = self.like(word);
                    if must {
                        required.push(like.iter().map(|(number, _)| *number).collect());
                    }
                    wanted.push(like);
                }
            });
        }
        for like in self.distinctive_words(&wanted) {
            for (number, weight) in like {
                for (tool, adds) in self.places(*number) {
                    scores[*tool as usize] += weight * adds;
                }
            }
        }
        for words in &required {
            let mut has = vec![false; self.tools];
            let places = words.iter().flat_map(|number| self.places(*number));
            places.for_each(|(tool, _)| has[*tool as usize] = true);
            scores.iter_mut().zip(has).filter(|(_, has)| !has).for_each(|(score, _)| *score = 0.0);
        }
        if let Some(exact) = exact {
            scores[exact] = f32::INFINITY;
        }
        best_scores(&scores, most)
    }

    /// The words that a word of a query stands for: itself, or those that begin with it.
    fn like(&self, word: &str) -> Vec<(u32, f32)> {
        if let Some(number) = self.words.get(word) {
            return vec![(number, 1.0)];
        }
        if word.chars().count() < 3 {
            return Vec::new();
        }
        let from = self.sorted.partition_point(|(known, _)| &**known < word);
        let begins = self.sorted[from..].iter().take_while(|(known, _)| known.starts_with(word));
        begins.take(PREFIX_WORDS_MAX).map(|(_, number)| (*number, PREFIX_WEIGHT)).collect()
    }

    /// The words that tell tools apart: without those that half of all have, if there are others.
    fn distinctive_words<'a>(
        &self,
        wanted: &'a [Vec<(u32, f32)>],
    ) -> impl Iterator<Item = &'a Vec<(u32, f32)>> {
        let common = |like: &[(u32, f32)]| {
            like.iter().map(|(number, _)| self.places(*number).len()).sum::<usize>() * 2 > self.tools
        };
        let some_rare = wanted.iter().any(|like| !like.is_empty() && !common(like));
        let flags: Vec<bool> = wanted.iter().map(|like| !(some_rare && common(like))).collect();
        wanted.iter().zip(flags).filter(|(_, telling)| *telling).map(|(like, _)| like)
    }
}

/// The positions of the highest scores, highest first; of equals the first.
fn best_scores(scores: &[f32], most: usize) -> Vec<usize> {
    let mut top: Vec<(f32, usize)> = Vec::with_capacity(most + 1);
    for (tool, score) in scores.iter().enumerate() {
        if *score <= 0.0 || (top.len() == most && top.last().is_some_and(|(worst, _)| score <= worst)) {
            continue;
        }
        let at = top.partition_point(|(better, _)| better >= score);
        top.insert(at, (*score, tool));
        top.truncate(most);
    }
    top.into_iter().map(|(_, tool)| tool).collect()
}

/// Entries of (word, tool, weight) as one list for each word, in the order of tools; and where each list
/// begins.
fn by_word(entries: &[(u32, u32, f32)], words: usize) -> (Vec<(u32, f32)>, Vec<u32>) {
    let mut begins = vec![0u32; words + 1];
    entries.iter().for_each(|(word, ..)| begins[*word as usize + 1] += 1);
    for word in 0..words {
        begins[word + 1] += begins[word];
    }
    let mut next = begins.clone();
    let mut places = vec![(0, 0.0); entries.len()];
    for (word, tool, weight) in entries {
        let at = &mut next[*word as usize];
        places[*at as usize] = (*tool, *weight);
        *at += 1;
    }
    (places, begins)
}

/// The number of each word. Nearly all are short and are kept where they are compared, which is most of what
/// making an index costs.
#[derive(Default)]
struct WordNumbers {
    short: HashMap<u128, u32, WordHasherBuilder>,
    long: HashMap<Box<str>, u32, WordHasherBuilder>,
    count: u32,
}

/// How many bytes a short word has at most; one more says how many.
const SHORT_BYTES_MAX: usize = 15;

impl WordNumbers {
    fn get(&self, word: &str) -> Option<u32> {
        match pack_word(word) {
            Some(packed) => self.short.get(&packed).copied(),
            None => self.long.get(word).copied(),
        }
    }

    /// The number of a word, a new one if it is new.
    fn number(&mut self, word: &str) -> u32 {
        let new = self.count;
        let number = match pack_word(word) {
            Some(packed) => *self.short.entry(packed).or_insert(new),
            None => match self.long.get(word) {
                Some(number) => *number,
                None => *self.long.entry(word.into()).or_insert(new),
            },
        };
        self.count += u32::from(number == new);
        number
    }

    /// All words in order.
    fn sorted(&self) -> Vec<(Box<str>, u32)> {
        let short = self.short.iter().map(|(packed, number)| {
            let bytes = packed.to_le_bytes();
            let word = &bytes[..usize::from(bytes[SHORT_BYTES_MAX])];
            (String::from_utf8_lossy(word).into_owned().into_boxed_str(), *number)
        });
        let long = self.long.iter().map(|(word, number)| (word.clone(), *number));
        let mut sorted: Vec<_> = short.chain(long).collect();
        sorted.sort_unstable();
        sorted
    }
}

fn pack_word(word: &str) -> Option<u128> {
    let mut bytes = [0; SHORT_BYTES_MAX + 1];
    bytes.get_mut(..word.len()).filter(|_| word.len() <= SHORT_BYTES_MAX)?.copy_from_slice(word.as_bytes());
    bytes[SHORT_BYTES_MAX] = word.len() as u8;
    Some(u128::from_le_bytes(bytes))
}

/// An index while it is made.
#[derive(Default)]
struct IndexBuilder {
    words: WordNumbers,
    /// Word, tool, and how much the word counts there.
    entries: Vec<(u32, u32, f32)>,
    lengths: Vec<f32>,
    /// How much each word counts in the present tool, and which words it has.
    sums: Vec<f32>,
    present: Vec<u32>,
    buffer: String,
}

impl IndexBuilder {
    fn add(&mut self, tool: u32, searchable: SearchableTool<'_>) {
        let SearchableTool { name, hint, description, input_schema } = searchable;
        let mut length = 0.0;
        self.read(name, NAME, &mut length);
        self.read(hint, HINT, &mut length);
        self.read(description, DESCRIPTION, &mut length);
        if let Some(arguments) = input_schema["properties"].as_object() {
            for argument in arguments.keys() {
                self.read(argument, ARGUMENT, &mut length);
            }
        }
        self.lengths.push(length);
        let IndexBuilder { entries, sums, present, .. } = self;
        entries.extend(present.drain(..).map(|word| (word, tool, std::mem::take(&mut sums[word as usize]))));
    }

    fn read(&mut self, text: &str, weight: f32, length: &mut f32) {
        let IndexBuilder { words, sums, present, buffer, .. } = self;
        each_word(text, buffer, |word| {
            *length += 1.0;
            let number = words.number(word);
            if number as usize == sums.len() {
                sums.push(0.0);
            }
            let sum = &mut sums[number as usize];
            if *sum == 0.0 {
                present.push(number);
            }
            *sum += weight;
        });
    }
}

/// A quick hash of short words. The words of a server's tools are bounded in number and length, so that one
/// who makes them collide gains nothing but a slower search of its own tools.
#[derive(Clone, Copy, Default)]
struct WordHasherBuilder;

impl BuildHasher for WordHasherBuilder {
    type Hasher = WordHasher;

    fn build_hasher(&self) -> WordHasher {
        WordHasher(0)
    }
}

struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn index() -> SearchIndex {
        let schema = json!({"type": "object", "properties": {"issueNumber": {}, "repo": {}}});
        let tool =
            |name, hint, description| SearchableTool { name, hint, description, input_schema: &schema };
        SearchIndex::new([
            tool("mcp__github__create_issue", "", "Opens a new issue in a repository."),
            tool("mcp__github__list_issues", "", "Lists issues of a repository."),
            tool("mcp__mail__send", "letter post", "Sends a message to somebody."),
            tool("NotebookEdit", "jupyter", "Changes a cell."),
            tool("issue", "", "Something else."),
        ])
    }

    fn check(query: &str, expected: &[usize]) {
        let found = index().find(query, 5);
        assert_eq!(&found[..expected.len().min(found.len())], expected, "{query}: {found:?}");
        assert!(!expected.is_empty() || found.is_empty(), "{query}: {found:?}");
    }

    #[test]
    fn an_exact_name_comes_first_then_what_says_most() {
        check("issue", &[4]);
        check("MCP__GitHub__List_Issues", &[1]);
        check("list_issues", &[1]);
        check("create a new issue", &[0]);
        check("jupyter notebook", &[3]);
        check("notebook", &[3]);
        check("letters", &[2]);
        check("mess", &[2]);
        check("zzz", &[]);
        check("", &[]);
        check("+", &[]);
    }

    #[test]
    fn a_required_word_has_to_be_there() {
        check("+mail issue", &[2]);
        assert_eq!(index().find("+mail issue", 5).len(), 1);
        assert_eq!(index().find("+issue +create", 5), [0]);
        check("+zzz issue", &[]);
    }

    #[test]
    fn results_are_bounded_and_stable() {
        let schema = json!({});
        let same = |name| SearchableTool { name, hint: "", description: "A repo.", input_schema: &schema };
        let equals = SearchIndex::new([same("c"), same("a"), same("b")]);
        assert_eq!(equals.find("repo", 2), [0, 1], "of equals the first");
        assert!(index().find("repo", 0).is_empty());
        assert!(SearchIndex::new([]).find("x", 5).is_empty());
        let long = "issue ".repeat(10_000);
        assert_eq!(index().find(&long, 1).len(), 1);
    }
}
