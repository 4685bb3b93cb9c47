include(batch)

# lamina_library(<folder> SOURCES ... [ALONE ...] LINKS ... [PRIVATE_LINKS ...] [PRIVATE_HEADERS ...]
# [RUNS_ONCE]): the library of one host folder.
# ALONE: sources that are never part of a batch (batch.cmake): they define a name that other sources
# define differently, or have other properties.
# LINKS: the folders and packages that its headers may include. PRIVATE_LINKS named lamina_* are
# header-only and leave no trace in an installed library.
# PRIVATE_HEADERS are regular expressions of headers that only the folder itself can compile. All
# others compile alone (target all_verify_interface_header_sets) and are installed with the
# component `host`.
# RUNS_ONCE: code that runs once per process or per graph is compiled fast instead of optimised.
set(runs_once $<$<CONFIG:Release>:-O1>)
function(lamina_library name)
  cmake_parse_arguments(ARG "RUNS_ONCE" "" "SOURCES;ALONE;LINKS;PRIVATE_LINKS;PRIVATE_HEADERS" ${ARGN})
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS *.h)
  foreach(pattern IN LISTS ARG_PRIVATE_HEADERS)
    list(FILTER headers EXCLUDE REGEX ${pattern})
  endforeach()
  list(TRANSFORM ARG_PRIVATE_LINKS REPLACE "^(lamina_.*)$" "$<BUILD_INTERFACE:\\1>")
  lamina_batch_sources(${name} ${PROJECT_SOURCE_DIR}/host "${ARG_SOURCES}" ARG_SOURCES)
  add_library(lamina_${name} STATIC ${ARG_SOURCES} ${ARG_ALONE})
  add_library(lamina::${name} ALIAS lamina_${name})
  set_target_properties(lamina_${name} PROPERTIES
    EXPORT_NAME ${name} VERIFY_INTERFACE_HEADER_SETS ON)
  target_sources(lamina_${name}
    PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/host FILES ${headers})
  lamina_use_precompiled(lamina_${name} lamina_host_headers)
  if(ARG_RUNS_ONCE)
    target_compile_options(lamina_${name} PRIVATE ${runs_once})
  endif()
  target_link_libraries(lamina_${name}
    PUBLIC ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS} $<BUILD_INTERFACE:lamina::warnings>)
endfunction()
