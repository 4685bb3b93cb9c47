# lamina_add_plugin(<name> [SOURCES <file>...] [CHECK [<level>]] [TARGET_MINOR <n>]): the plugin
# <name>.lamina.so of the current folder, by default from all its .cc files. The same call works in
# the tree of lamina and outside (find_package(lamina_plugin_api)). Sets every flag that
# docs/plugin_requirements.md asks for and checks the result after linking. The target is
# lamina_plugin_<name>; the library lands in <build>/lib/lamina/plugins and is installed to
# lib/lamina/plugins; with FOR_TESTS in <build>/tests/plugins, and is not installed.
# - Descriptions of small models in the folder check/ stand beside it as <name>.check;
#   `lamina plugin check` runs on them. CHECK makes that a test of CTest, named <name>.conforms, at
#   level quick or the one given; it needs the program lamina.
# - TARGET_MINOR: it needs hosts of that minor of the contract or a later one, and may use what came
#   with it (lamina/sdk/target.h).
include_guard(GLOBAL)

function(lamina_plugin_compile_options target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>
    # Errors name the file of the plugin's source, not the path on the machine that built it.
    -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
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

# The test of CHECK. The program is the one of this build, of the installation that the package is
# from, or of PATH.
function(lamina_check_plugin name target level)
  if(NOT level)
    set(level quick)
  endif()
  if(TARGET lamina)
    set(program $<TARGET_FILE:lamina>)
  else()
    find_program(LAMINA_PROGRAM lamina HINTS ${LAMINA_PLUGIN_API_PREFIX}/bin)
    if(NOT LAMINA_PROGRAM)
      message(WARNING "no program lamina is found, so ${name} has no test; set LAMINA_PROGRAM")
      return()
    endif()
    set(program ${LAMINA_PROGRAM})
  endif()
  add_test(NAME ${name}.conforms
    COMMAND ${program} plugin check $<TARGET_FILE:${target}> --level ${level})
endfunction()
