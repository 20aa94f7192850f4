//! Compiles the BPF programs under `bpf/` into objects that the library embeds.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

const PROGRAMS: [&str; 3] = ["walk", "vma", "census"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=bpf");
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?);
    // The objects name their sources; where these lie on the builder's disk must not make a difference.
    let here = env::var("CARGO_MANIFEST_DIR")?;
    let no_paths = format!("-ffile-prefix-map={here}=.");
    for name in PROGRAMS {
        SkeletonBuilder::new()
            .source(Path::new("bpf").join(format!("{name}.bpf.c")))
            .obj(out_dir.join(format!("{name}.bpf.o")))
            .clang_args([
                "-mcpu=v3",
                "-Wall",
                "-Wextra",
                "-Wno-unused-parameter",
                &no_paths,
            ])
            .build()?;
    }
    Ok(())
}
