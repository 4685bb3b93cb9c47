// The options that say how a text is generated: one list for `lamina decode`, `lamina chat` and
// /set in a chat.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/shell/command.h"
#include "decode/generate.h"
#include "decode/prompt_rows.h"
#include "model/load.h"

namespace lamina::cli {

// -n, --stop, --temp, --top-k ...: the last ones in the order in which they act.
std::vector<Option> generation_options(std::int64_t max_new_tokens, bool with_beams);

// Throws what read_generation_options() would for the command line alone: mistakes are said before
// a model is loaded.
void check_generation_options(const Arguments& a);
// Their values: of the command line, else of the model's generation_config.json, else the usual
// ones. --verbose shows what comes from where. Throws UserError (exit 2) for texts that are no ids.
decode::GenerateOptions read_generation_options(const Arguments& a, const model::Loaded& m);

// What the state of a continuation holds, and how many tokens a call reads at once. Throws
// UserError (exit 2) for a prompt that does not fit. `rows` may be null.
decode::SessionOptions session_options(const Arguments& a, const decoder::Model& model,
                                       std::size_t prompt, const decode::GenerateOptions& options,
                                       const decode::PromptRows* rows);

// Changes the value of one option of a chat, by its name. False: it is none of these. Throws
// UserError (exit 2) for a value that it cannot have, eg: an id outside of the vocabulary; `where`
// is what was typed.
bool set_generation_option(std::string_view name, const std::string& value,
                           const std::string& where, std::int64_t vocab_size,
                           decode::GenerateOptions& options);
// "on" or "off", as /set takes it for flags; errors likewise.
bool read_switch(std::string_view name, std::string_view text, const std::string& where);
// Name and value of each that a chat has: all but those of beam search.
std::vector<std::pair<std::string, std::string>> list_generation_options(
    const decode::GenerateOptions& options);

}  // namespace lamina::cli
