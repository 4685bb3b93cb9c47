# lamina_add_plugin(<name> [SOURCES <file>...] [CHECK [<level>]] [TARGET_MINOR <n>] [FOR_TESTS])
#
# Adds the plugin <name>.lamina.so of the current folder, by default from all its .cc files. The same
# call works inside and outside the tree of lamina (find_package(lamina_plugin_api)). Sets every flag
# that docs/plugin_requirements.md requires and checks the library after linking. The target is
# lamina_plugin_<name>; the library is written to <build>/lib/lamina/plugins and installed to
# lib/lamina/plugins. With FOR_TESTS it is written to <build>/tests/plugins and not installed.
# - In a project without a build type, the plugin has the flags of Release.
# - The folder check/ has descriptions of small models for `lamina plugin check`; it is linked beside
#   the library as <name>.check. CHECK adds the CTest test <name>.conforms, at level quick or the
#   given one; it needs the program lamina.
# - TARGET_MINOR sets the oldest host, as a minor of the contract; the plugin may use its additions
#   (lamina/sdk/target.h).
include_guard(GLOBAL)

function(lamina_plugin_compile_options target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>
    # Errors then name source files relative to the project, not the path on the build machine.
    -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
endfunction()

# Without a build type a compiler does not optimise. Flags of the user that choose a level count.
function(lamina_plugin_release_flags target)
  if(CMAKE_BUILD_TYPE OR CMAKE_CONFIGURATION_TYPES)
    return()
  endif()
  foreach(language C CXX)
    if(NOT "${CMAKE_${language}_FLAGS}" MATCHES "-O")
      separate_arguments(flags NATIVE_COMMAND "${CMAKE_${language}_FLAGS_RELEASE}")
      target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:${language}>:${flags}>")
    endif()
  endforeach()
endfunction()

function(lamina_add_plugin name)
  cmake_parse_arguments(ARG "FOR_TESTS" "TARGET_MINOR" "SOURCES;CHECK" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  endif()
  set(target lamina_plugin_${name})
  set(map ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/lamina_plugin.map)
  set(check ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/check_plugin.cmake)

  set(folder lib/lamina/plugins)
  if(ARG_FOR_TESTS)
    set(folder tests/plugins)
  endif()

  add_library(${target} MODULE ${ARG_SOURCES})
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_link_libraries(${target}
    PRIVATE lamina::plugin_api $<TARGET_NAME_IF_EXISTS:lamina::warnings>)
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME ${name} SUFFIX .lamina.so
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder}
    CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    C_VISIBILITY_PRESET hidden
    SKIP_BUILD_RPATH ON INSTALL_RPATH ""
    LINK_DEPENDS "${map};${check}")
  if(DEFINED ARG_TARGET_MINOR)
    target_compile_definitions(${target} PRIVATE LAMINA_TARGET_MINOR=${ARG_TARGET_MINOR})
  endif()
  lamina_plugin_compile_options(${target})
  lamina_plugin_release_flags(${target})
  target_link_options(${target} PRIVATE
    LINKER:--version-script=${map} LINKER:-z,defs LINKER:-Bsymbolic LINKER:--exclude-libs,ALL
    LINKER:-z,noexecstack)
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -DPLUGIN=$<TARGET_FILE:${target}> -DNM=${CMAKE_NM}
            -DREADELF=${CMAKE_READELF} -P ${check}
    VERBATIM)
  if(NOT ARG_FOR_TESTS)
    install(TARGETS ${target} LIBRARY DESTINATION ${folder})
  endif()
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/check)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
    file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/check ${CMAKE_BINARY_DIR}/${folder}/${name}.check
         SYMBOLIC)
    if(NOT ARG_FOR_TESTS)
      install(DIRECTORY check/ DESTINATION ${folder}/${name}.check FILES_MATCHING PATTERN *.toml)
    endif()
  endif()
  if(DEFINED ARG_CHECK OR "CHECK" IN_LIST ARG_KEYWORDS_MISSING_VALUES)
    lamina_check_plugin(${name} ${target} "${ARG_CHECK}")
  endif()
endfunction()

# Adds the test of CHECK. It runs the program of this build, of the installation of the package, or of
# PATH.
function(lamina_check_plugin name target level)
  if(NOT level)
    set(level quick)
  endif()
  if(TARGET lamina)
    set(program $<TARGET_FILE:lamina>)
  else()
    find_program(LAMINA_PROGRAM lamina HINTS ${LAMINA_PLUGIN_API_PREFIX}/bin)
    if(NOT LAMINA_PROGRAM)
      message(WARNING "the program lamina is not found, so ${name} has no test; set LAMINA_PROGRAM")
      return()
    endif()
    set(program ${LAMINA_PROGRAM})
  endif()
  add_test(NAME ${name}.conforms
    COMMAND ${program} plugin check $<TARGET_FILE:${target}> --level ${level})
endfunction()
