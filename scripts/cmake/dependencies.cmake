# All external dependencies, with reasons. All are Debian packages (scripts/setup).

include(linked_packages)
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

find_package(yaml-cpp REQUIRED)                                       # `lamina config import`
find_path(DYGRAPHS_FOLDER dygraph.min.js PATHS /usr/share/javascript/dygraphs REQUIRED)  # curves of `lamina report`
find_file(DYGRAPHS_LICENCE copyright PATHS /usr/share/doc/libjs-dygraphs NO_DEFAULT_PATH REQUIRED)
pkg_check_modules(libedit REQUIRED IMPORTED_TARGET libedit)          # lines typed into `lamina chat`

if(LAMINA_TESTS)
  find_package(GTest REQUIRED)
  find_package(Boost 1.81 REQUIRED COMPONENTS context)               # threads of the emulated GPU
  pkg_check_modules(oniguruma REQUIRED IMPORTED_TARGET oniguruma)    # what regular expressions mean
endif()
