# lamina_library(<folder> SOURCES ... LINKS ... [PRIVATE_LINKS ...]): the library of one host
# folder. LINKS are the folders and packages that its headers may include.
function(lamina_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(lamina_${name} STATIC ${ARG_SOURCES})
  add_library(lamina::${name} ALIAS lamina_${name})
  target_include_directories(lamina_${name} PUBLIC ${PROJECT_SOURCE_DIR}/host)
  target_link_libraries(lamina_${name}
    PUBLIC ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS} lamina::warnings)
endfunction()
