# Precompiles headers that most files include, which saves half of the time to compile a file of
# ordinary length. Files still include what they use; presets without LAMINA_PRECOMPILE, and the check
# that every header compiles alone, find missing includes.
option(LAMINA_PRECOMPILE "Parse the headers of the standard library once" OFF)
set(standard_headers <algorithm> <array> <bit> <charconv> <chrono> <cmath> <cstdint> <cstring> <filesystem>
    <functional> <limits> <map> <memory> <optional> <set> <span> <string> <string_view> <unordered_map>
    <utility> <variant> <vector>)

# lamina_precompile(<name> HEADERS ... LINKS ... [OPTIONS ...]): headers that targets can name in
# lamina_use_precompiled. OPTIONS: compiler options that must be the same in both.
function(lamina_precompile name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINKS;OPTIONS" ${ARGN})
  if(LAMINA_PRECOMPILE)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "// Compiled for its headers.\n")
    add_library(${name} OBJECT ${source})
    target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
    target_link_libraries(${name} PRIVATE ${ARG_LINKS} lamina::warnings)
    target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  endif()
endfunction()

function(lamina_use_precompiled target name)
  if(LAMINA_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${name})
    # GCC 12 treats precompiled system headers as user headers, and warns of copies inside std::string
    # that cannot happen (PR 105651). The other presets have these warnings.
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      target_compile_options(${target} PRIVATE -Wno-stringop-overflow -Wno-array-bounds)
      if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")  # it warns of moves inside std::variant, too
        target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
      endif()
    endif()
  endif()
endfunction()
