//! Drawing of recorded programs, and templates.
