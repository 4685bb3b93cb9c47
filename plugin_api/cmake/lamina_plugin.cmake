# lamina_add_plugin(<name> [SOURCES <file>...] [CHECK [<level>]] [TARGET_MINOR <n>] [FOR_TESTS]
#                   [GPU_KERNELS <file.cu> [GPU_CUBINS <capability>...]])
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
# - GPU_KERNELS: kernels of custom ops for GPUs, compiled by nvcc to PTX for compute capability 8.0,
#   and to a cubin for each of GPU_CUBINS ("90", "90a"). Without nvcc the file <file>.ptx beside it is
#   used; if there is none, the plugin has no kernels for GPUs.
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
  cmake_parse_arguments(ARG "FOR_TESTS" "TARGET_MINOR;GPU_KERNELS" "SOURCES;CHECK;GPU_CUBINS" ${ARGN})
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

  if(ARG_GPU_KERNELS)
    lamina_gpu_images(${name} ${ARG_GPU_KERNELS} "${ARG_GPU_CUBINS}" images)
    list(APPEND ARG_SOURCES ${images})
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

# Sets `source` to a file that defines the images of the kernels in a .cu file.
function(lamina_gpu_images name kernels cubins source)
  cmake_path(ABSOLUTE_PATH kernels OUTPUT_VARIABLE kernels)
  cmake_path(REPLACE_EXTENSION kernels LAST_ONLY ptx OUTPUT_VARIABLE committed)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}_gpu)
  set(files)
  set(labels "")
  set(declared "")
  set(rows "")
  # Adds an image: KIND is PTX or CUBIN; a capability that ends with a letter is for that GPU only.
  macro(add_image kind capability file)
    string(REGEX REPLACE "[a-z]+$" "" number "${capability}")
    set(flags 0)
    if(NOT number STREQUAL "${capability}")
      set(flags LAMINA_GPU_ONLY_THIS_CAPABILITY)
    endif()
    list(LENGTH files index)
    list(APPEND files ${file})
    string(APPEND labels "    \".balign 64\\nlamina_gpu_image_${index}:\\n.incbin \\\"${file}\\\"\\n\"\n"
                         "    \".byte 0\\nlamina_gpu_image_${index}_end:\\n\"\n")
    string(APPEND declared "extern const char lamina_gpu_image_${index}[], lamina_gpu_image_${index}_end[];\n")
    string(APPEND rows "      {sizeof(lamina_gpu_image_t), LAMINA_GPU_${kind}, ${number}, ${flags}, lamina_gpu_image_${index},\n"
                       "       static_cast<std::uint64_t>(lamina_gpu_image_${index}_end - lamina_gpu_image_${index})},\n")
  endmacro()
  find_program(LAMINA_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(LAMINA_NVCC)
    set(options -std=c++20 -O3 -Werror all-warnings)
    foreach(target ptx ${cubins})
      set(file ${folder}/${target})
      if(target STREQUAL ptx)
        set(for -ptx -arch=compute_80)
        add_image(PTX 80 ${file})
      else()
        set(for -cubin -arch=sm_${target})
        add_image(CUBIN ${target} ${file})
      endif()
      add_custom_command(OUTPUT ${file}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
        COMMAND ${LAMINA_NVCC} ${options} ${for} -MD -MF ${file}.d -o ${file} ${kernels}
        DEPENDS ${kernels} DEPFILE ${file}.d COMMENT "Compiling kernels of ${name} for GPUs" VERBATIM)
    endforeach()
  elseif(EXISTS ${committed})
    add_image(PTX 80 ${committed})
  else()
    message(STATUS "nvcc is not found: ${name} has no kernels for GPUs")
    set(rows "      {},\n")
  endif()
  list(LENGTH files count)
  set(code ${CMAKE_CURRENT_BINARY_DIR}/${name}_gpu_images.cc)
  set(section "")
  if(files)
    set(section "asm(\".section .rodata\\n\"\n${labels}    \".previous\\n\");\n")
  endif()
  file(CONFIGURE OUTPUT ${code} CONTENT "// Generated by lamina_add_plugin().
#include \"lamina/sdk.h\"
${section}extern \"C\" {
${declared}}
lamina_span_t lamina::sdk::gpu_images() {
  static const lamina_gpu_image_t images[] = {
${rows}  };
  return {images, ${count}, sizeof images[0]};
}
")
  set_source_files_properties(${code} PROPERTIES OBJECT_DEPENDS "${files}")
  set(${source} ${code} PARENT_SCOPE)
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
