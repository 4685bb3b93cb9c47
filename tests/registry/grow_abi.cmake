# Writes OUTPUT: a header of the contract as a later minor might be, each growable struct with two
# fields more.
file(READ ${HEADER} text)
string(REGEX MATCHALL "X\\((lamina_[a-z_]+_t), [0-9]+\\)" rows "${text}")
foreach(row IN LISTS rows)
  string(REGEX REPLACE "X\\((lamina_[a-z_]+)_t, [0-9]+\\)" "\\1" name ${row})
  # The struct's end is the first brace in the first column after its begin.
  string(FIND "${text}" "struct ${name} {" begin)
  string(SUBSTRING "${text}" 0 ${begin} before)
  string(SUBSTRING "${text}" ${begin} -1 after)
  string(FIND "${after}" "\n}" end)
  if(begin EQUAL -1 OR end EQUAL -1)
    message(FATAL_ERROR "${HEADER}: struct ${name} is not found")
  endif()
  string(SUBSTRING "${after}" 0 ${end} body)
  string(SUBSTRING "${after}" ${end} -1 after)
  set(text "${before}${body}\n  uint64_t later_a, later_b;${after}")
endforeach()
file(WRITE ${OUTPUT} "${text}")
