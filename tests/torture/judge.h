// Conditions that every exit of the program must meet, under every fault.
#pragma once

#include <initializer_list>
#include <string>

#include "torture/child.h"

namespace lamina::torture {

// Throws Failure "<doing>: ..." unless the process ended by itself, in time, with one of `codes`
// (from docs/exit_codes.md), and, if the code is an error's, with "error: <where>: <what>" on
// stderr. 1 is in no list: it is the code of unclassified errors.
void expect_end(const Ended& ended, std::initializer_list<int> codes, const std::string& doing);

// The last line of stderr that begins with "error: "; "" if there is none.
std::string error_line(const Ended& ended);

// The end of stderr, for reports.
std::string last_words(const Ended& ended);

}  // namespace lamina::torture
