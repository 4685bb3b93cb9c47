// Options of text generation: one list for `lamina decode`, `lamina chat` and /set in a chat.
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

// -n, --stop, --temp, --top-k ...: the samplers in the order in which they act.
std::vector<Option> generation_options(std::int64_t max_new_tokens, bool with_beams);

// Throws the errors of read_generation_options() that depend on the command line only, before a
// model is loaded.
void check_generation_options(const Arguments& a);
// Values from the command line, else from the model's generation_config.json, else defaults.
// --verbose shows the source of each. Without `with_beams` there is no search. Throws UserError
// (exit 2) for texts that are not ids, and for options without effect.
decode::GenerateOptions read_generation_options(const Arguments& a, const model::Loaded& m,
                                                bool with_beams);

// Returns a default length, limited to the model's positions and to decoder::kMaxTokens.
std::int64_t within_positions(const decoder::Model& model, std::int64_t tokens);

// Warns if a context is longer than the model's positions.
void warn_of_positions(const decoder::Model& model, std::int64_t context);

// A session for --ctx-size tokens; without the option for `usual` tokens, or for all positions of
// the model if it has fewer. Throws UserError (exit 2) for a context that the model cannot have.
decode::SessionOptions context_options(const Arguments& a, const decoder::Model& model,
                                       std::int64_t usual);

// The capacity of the decode state for a continuation, and the number of tokens per call. Throws
// UserError (exit 5, or 2 for --ids) for a prompt that does not fit. `rows` may be null.
decode::SessionOptions session_options(const Arguments& a, const decoder::Model& model,
                                       std::size_t prompt, const decode::GenerateOptions& options,
                                       const decode::PromptRows* rows);

// Changes one option of a chat by name. Returns false for an unknown name. Throws UserError (exit
// 2) for a wrong value, eg an id outside the vocabulary; `where` is the user's input.
bool set_generation_option(std::string_view name, const std::string& value,
                           const std::string& where, std::int64_t vocab_size,
                           decode::GenerateOptions& options);
// Parses "on" or "off" for flags of /set; same errors.
bool read_switch(std::string_view name, std::string_view text, const std::string& where);
// Name and value of each option of a chat: all except beam search.
std::vector<std::pair<std::string, std::string>> list_generation_options(
    const decode::GenerateOptions& options);

}  // namespace lamina::cli
