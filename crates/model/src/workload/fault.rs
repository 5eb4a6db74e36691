//! [`Fault`]: a part of a modelled disk that does not serve.

use surety_units::Bytes;

/// Bytes of a disk: requests that touch them fail with EIO, from the beginning of the run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The first, in bytes from the beginning of the disk: whole sectors.
    pub at: Bytes,
    /// How many: whole sectors, one at least.
    pub bytes: Bytes,
    /// Which requests.
    pub fails: Fails,
}

/// Requests that a [`Fault`] is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fails {
    /// Reads and writes.
    #[default]
    Both,
    /// Reads alone.
    Reads,
    /// Writes alone.
    Writes,
}

impl Fails {
    /// All, by their words.
    pub const WORDS: [(&'static str, Fails); 3] =
        [("both", Fails::Both), ("reads", Fails::Reads), ("writes", Fails::Writes)];

    /// Its word.
    pub fn word(self) -> &'static str {
        Fails::WORDS[self as usize].0
    }
}

impl Fault {
    /// What places and sizes are multiples of.
    pub const SECTOR: u64 = 512;

    /// Why there is no such part of a disk.
    ///
    /// # Errors
    /// In words, which do not name the part.
    pub fn check(&self) -> Result<(), String> {
        let is_whole = |bytes: Bytes| bytes.0.is_multiple_of(Fault::SECTOR);
        if !is_whole(self.at) || !is_whole(self.bytes) || self.bytes.0 == 0 {
            return Err(format!(
                "{} from {} on are not whole sectors: use multiples of {} B, and one at least",
                self.bytes,
                self.at,
                Fault::SECTOR
            ));
        }
        match self.at.0.checked_add(self.bytes.0) {
            Some(_) => Ok(()),
            None => Err("it ends beyond what a disk can have".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_the_order_of_what_they_are_for() {
        assert!(Fails::WORDS.iter().all(|(word, fails)| fails.word() == *word));
    }

    #[test]
    fn parts_are_of_whole_sectors() {
        let check = |at, bytes| Fault { at: Bytes(at), bytes: Bytes(bytes), fails: Fails::Both }.check();
        assert_eq!((check(0, 512), check(1 << 20, 4096)), (Ok(()), Ok(())));
        for (at, bytes) in [(0, 0), (1, 512), (512, 513)] {
            assert!(check(at, bytes).unwrap_err().contains("whole sectors"), "{at} {bytes}");
        }
        assert!(check(u64::MAX - 511, 512).unwrap_err().contains("beyond"));
    }
}
