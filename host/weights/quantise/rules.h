// Chooses the formats of quantised parameters: --quantize and --quantize-rule.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decoder/model.h"
#include "decoder/stack/parameter_match.h"

namespace lamina::weights {

// A format for some parameters.
struct QuantiseRule {
  std::string text;  // as given
  decoder::ParameterMatch match = {};
  std::optional<std::pair<std::int64_t, std::int64_t>> layers = {};  // first and last
  std::string format = {};                                           // empty: not quantised
};

// A name of formats::quantised_names(), and exceptions. The first rule that matches a parameter
// applies.
struct Quantisation {
  std::string format;
  std::vector<QuantiseRule> rules = {};
  // Options or places of both keys, for errors.
  std::string option = "--quantize", rule_option = "--quantize-rule";
  std::string rule_key = "";  // the key of a run file to which rules are added; empty: options
};

// Checks a name of --quantize. UserError (exit 2): there is no such format; lists those that exist.
void check_quantise_format(std::string_view where, std::string_view name);

// Parses "PATTERN=FORMAT" or "PATTERN=none". The pattern is "layers:FIRST-LAST" or "layers:N",
// "group:NAME", "role:NAME", the name of a role, or a pattern of the whole name of a parameter.
// UserError (exit 2) at `where`: another form; an unknown format.
QuantiseRule parse_quantise_rule(const std::string& text,
                                 const std::string& where = "--quantize-rule");

// Returns the rules that keep these parameters as they are in all layers, for messages:
// "--quantize-rule 'layers.*.attention.wk.weight=none' --quantize-rule ..", or with the key of a
// run file "\"layers.*.attention.wk.weight=none\", .. in train.quantize_rules".
std::string rules_of_none(std::string_view rule_key,
                          std::span<const decoder::Parameter* const> parameters);

// May refuse a choice of storages, and set the model's meanwhile.
using StorageCheck = std::function<void(std::span<const formats::BlockFormat* const>)>;

// Returns the storage of each parameter; null: not quantised. Only matrices that graphs of decoding
// read in blocks are quantised, but no adapters; without rules only the role "weight". Warns of
// matrices that stay plain because their rows are not whole blocks, after `check`.
// UserError (exit 2): a rule that matches nothing, or nothing that can be quantised, or only
// parameters of earlier rules; rules that leave nothing.
std::vector<const formats::BlockFormat*> choose_storage(const decoder::Model& model,
                                                        const Quantisation& what, DType compute,
                                                        const StorageCheck& check = {});
// Likewise for other graphs, which read the `storable` parameters (one per parameter) in blocks.
std::vector<const formats::BlockFormat*> choose_storage(const decoder::Model& model,
                                                        const Quantisation& what, DType compute,
                                                        std::vector<bool> storable,
                                                        const StorageCheck& check = {});

}  // namespace lamina::weights
