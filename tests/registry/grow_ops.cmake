# Writes OUTPUT: ops.def as a later minor might be, with an op more, and with an input, an output and
# an attribute more of soft_cap.
file(READ ${ROWS} text)
function(replace from to)
  string(FIND "${text}" "${from}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${ROWS}: ${from} is not found")
  endif()
  string(REPLACE "${from}" "${to}" text "${text}")
  set(text "${text}" PARENT_SCOPE)
endfunction()
replace("LAMINA_OP(67, soft_cap, 1, 0, \"x\", \"y\", \"cap:f=0\""
        "LAMINA_OP(67, soft_cap, 1, 0, \"x more?@99\", \"y z@99\", \"cap:f=0 mode:i=0@99\"")
replace("\n#undef LAMINA_OP\n"
        "\nLAMINA_OP(9999, later, 1, 99, \"x\", \"y\", \"\", \"x\")\n\n#undef LAMINA_OP\n")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${text}" @ONLY)
