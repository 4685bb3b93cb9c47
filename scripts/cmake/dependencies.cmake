# Everything we take from outside, with why. All are Debian packages (scripts/setup).

# dl: loads plugins; program_options: the command line; json: HF files with strict limits.
find_package(Boost 1.81 REQUIRED COMPONENTS filesystem program_options json)
find_package(fmt REQUIRED)        # std::format is missing in GCC 12 (docs/adr/0006)
find_package(spdlog REQUIRED)     # levels, sinks, time stamps
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)        # tokenizer split patterns
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)    # Unicode normal forms
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)        # checksums of checkpoints
# Products with many rows (docs/adr/0007), opened when the first one runs (docs/adr/0013). Not
# find_package: Debian's config asks for OpenCL.
find_path(DNNL_INCLUDE dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(lamina_dnnl INTERFACE)
target_include_directories(lamina_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE})
find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)              # run files, header only
find_path(RANDOM123_INCLUDE Random123/philox.h REQUIRED)            # counter-based randomness
add_library(lamina_tomlplusplus INTERFACE)
target_include_directories(lamina_tomlplusplus SYSTEM INTERFACE ${TOMLPLUSPLUS_INCLUDE})
add_library(lamina_random123 INTERFACE)
target_include_directories(lamina_random123 SYSTEM INTERFACE ${RANDOM123_INCLUDE})

if(LAMINA_TESTS)
  find_package(GTest REQUIRED)
endif()
