//! Functions of this program, as numbers that another process of the same program turns back into functions.
//!
//! A child process is started from the executable file of its parent, and has heard of nothing. What it is to
//! run reaches it on its command line, as the distance of a function from a fixed function of this file. The
//! kernel maps an executable file as a whole, so this distance is the same in every process of it. Functions
//! in shared libraries are refused: the distance to them changes, and another program may not have loaded
//! them.
//!
//! The decision to question: a number becomes a function. The alternative is a list of functions that `main`
//! hands over, which a program has to remember, and which a test program, whose `main` belongs to libtest,
//! can't. Whoever can start this program with a number of their own choice can run code as this user anyway.
#![expect(unsafe_code, reason = "no safe API turns a number into a function")]

use std::fs;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::OnceLock;

/// A function pointer of type `F`, by its distance from [`anchor_function`].
pub(super) struct CodeAddress<F>(isize, PhantomData<fn() -> F>);

impl<F> Clone for CodeAddress<F> {
    fn clone(&self) -> CodeAddress<F> {
        *self
    }
}

impl<F> Copy for CodeAddress<F> {}

impl<F: Copy> CodeAddress<F> {
    const IS_POINTER: () =
        assert!(size_of::<F>() == size_of::<usize>(), "only function pointers have a code address");

    /// The address of a function pointer; `None` if it isn't in the executable file of this process.
    pub(super) fn from_function(function: F) -> Option<CodeAddress<F>> {
        let () = Self::IS_POINTER;
        // SAFETY: `F` is as large as a pointer, and every function pointer is a number.
        let address: usize = unsafe { std::mem::transmute_copy(&function) };
        let is_ours = program_code().iter().any(|code| code.contains(&address));
        is_ours.then(|| CodeAddress(address.wrapping_sub(anchor_address()).cast_signed(), PhantomData))
    }

    /// The function pointer.
    ///
    /// # Safety
    /// The address was made by [`CodeAddress::from_function`] for the same type `F`, in a process of the same
    /// executable file.
    pub(super) unsafe fn function(self) -> F {
        let () = Self::IS_POINTER;
        let address = anchor_address().wrapping_add_signed(self.0);
        // SAFETY: The caller says that this number is the address of a function of type `F` in this process.
        unsafe { std::mem::transmute_copy(&address) }
    }

    /// The address as a command line has it.
    pub(super) fn to_text(self) -> String {
        self.0.to_string()
    }

    /// The address that a command line has.
    pub(super) fn parse(text: &str) -> Option<CodeAddress<F>> {
        Some(CodeAddress(text.parse().ok()?, PhantomData))
    }
}

/// The fixed point. It has an effect that no other function has, so the linker can't merge it with one.
#[inline(never)]
fn anchor_function() -> &'static str {
    "the fixed point of code addresses"
}

fn anchor_address() -> usize {
    anchor_function as fn() -> &'static str as usize
}

/// Where the code of the executable file lies in this process.
fn program_code() -> &'static [Range<usize>] {
    static CODE: OnceLock<Vec<Range<usize>>> = OnceLock::new();
    CODE.get_or_init(|| {
        let program = fs::read_link("/proc/self/exe").unwrap_or_default();
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        code_of(&maps, &program.to_string_lossy())
    })
}

/// The executable mappings of a file, from the lines of `/proc/self/maps`.
fn code_of(maps: &str, file: &str) -> Vec<Range<usize>> {
    let mapping = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let is_code = rest.as_bytes().get(2) == Some(&b'x') && !file.is_empty();
        (is_code && rest.ends_with(&format!(" {file}"))).then_some(number(start)?..number(end)?)
    };
    maps.lines().filter_map(mapping).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twice(number: u32) -> u32 {
        2 * number
    }

    #[test]
    fn an_address_leads_back_to_its_function() {
        let address = CodeAddress::from_function(twice as fn(u32) -> u32).unwrap();
        let text = address.to_text();
        let again: CodeAddress<fn(u32) -> u32> = CodeAddress::parse(&text).unwrap();
        // SAFETY: Of this process, for the same type.
        assert_eq!(unsafe { again.function() }(21), 42);
        assert!(CodeAddress::<fn()>::parse("x").is_none());
    }

    #[test]
    fn code_of_a_shared_library_has_no_address() {
        let maps = "5500-5600 r--p 0 08:01 1   /bin/a b\n5600-5700 r-xp 0 08:01 1   /bin/a b\n\
                    5700-5800 rw-p 0 08:01 1   /bin/a b\n7000-7100 r-xp 0 08:01 2   /lib/libc.so.6\n";
        assert_eq!(code_of(maps, "/bin/a b"), vec![std::ops::Range { start: 0x5600, end: 0x5700 }]);
        assert!(code_of(maps, "").is_empty());
        // `strlen` belongs to the C library, which is a shared one unless the target links it statically.
        unsafe extern "C" {
            fn strlen(text: *const std::ffi::c_char) -> usize;
        }
        let address =
            CodeAddress::from_function(strlen as unsafe extern "C" fn(*const std::ffi::c_char) -> usize);
        assert_eq!(address.is_none(), cfg!(not(target_feature = "crt-static")));
    }
}
