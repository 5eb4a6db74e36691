//! How the shared library is linked: under the name that programs look for, and for good.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo sets it");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsurety-stream.so.{major}");
    // Its threads would run on in code that `dlclose` took away.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
