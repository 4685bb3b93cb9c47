# Headers and their instantiations take two thirds of the time to compile a file of ordinary length.
# Six files in one source share them.
option(LAMINA_BATCH "Compile the files of a library or a test program several at a time" OFF)

# lamina_batch_sources(<name> <root> <sources> <out>): sources of the current folder, or the batches
# that replace them; <root> is the include folder for them.
# CMake's unity builds include absolute paths, which a compiler cache cannot share between clones.
function(lamina_batch_sources name root sources out)
  if(NOT LAMINA_BATCH)
    set(${out} ${sources} PARENT_SCOPE)
    return()
  endif()
  set(batches)
  set(number 0)
  while(sources)
    list(SUBLIST sources 0 6 batch)
    set(text "")
    foreach(source IN LISTS batch)
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${root})
      string(APPEND text "#include \"${source}\"\n")
    endforeach()
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}_batch_${number}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}")
    list(APPEND batches ${file})
    list(LENGTH sources left)
    if(left LESS_EQUAL 6)
      break()
    endif()
    list(SUBLIST sources 6 -1 sources)
    math(EXPR number "${number} + 1")
  endwhile()
  set(${out} ${batches} PARENT_SCOPE)
endfunction()
