# One INTERFACE target with the warnings for all our code. With GCC 12, the tested compiler, warnings are
# errors in the presets `release` and `test`. Both compile the host with the same flags, so that the
# compiler cache serves the second one.
add_library(lamina_warnings INTERFACE)
add_library(lamina::warnings ALIAS lamina_warnings)
target_compile_options(lamina_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>
  -Wcast-qual
  -Wno-missing-field-initializers
  $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Werror>
  # GCC 12 warns of overlapping copies in std::string's operator+ that cannot happen (PR 105651).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
