# Packages that the libraries of the host link, in this build and in programs that use an installation.

# dl: loads plugins; program_options: the command line; json: HF files with strict limits.
find_package(Boost 1.81 REQUIRED COMPONENTS filesystem program_options json)
find_package(fmt REQUIRED)        # std::format is missing in GCC 12 (docs/adr/0006)
find_package(spdlog REQUIRED)     # levels, sinks, time stamps
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)        # tokenizer split patterns
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)    # Unicode normal forms
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)        # checksums of checkpoints
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)               # .gz files of text
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)            # .zst files of text
