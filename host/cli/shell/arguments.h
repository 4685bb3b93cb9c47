// Parses the words after a command: Boost.Program_options splits them into options; types and
// limits are checked by the same code as keys of run files. Private to parse.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/shell/command.h"

namespace lamina::cli {

// The option that a word names, by its long or short name, with or without a value attached; null
// if there is none.
const Option* find_option(const std::vector<Option>& options, std::string_view word);
bool takes_value(const Option& option);

// Throws UserError (exit 2).
[[noreturn]] void refuse_usage(std::string what, std::vector<std::string> notes);
// `advice` replaces the suggestion of the nearest option if it is not empty.
[[noreturn]] void refuse_option(const std::vector<Option>& options, const std::string& word,
                                const std::string& advice = "");

// The value of an option, or the error in it. `shown`: the option's name in the error.
std::variant<Value, ErrorText> check_option(const Option& option, const std::string& shown,
                                            const std::string& text);

// The checked values of the words after the command's name. Errors: as parse_command_line.
Arguments parse_arguments(const Command& command, std::vector<std::string> words);

}  // namespace lamina::cli
