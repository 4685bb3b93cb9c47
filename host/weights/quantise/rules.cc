#include "weights/quantise/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "core/log.h"
#include "core/suggest.h"
#include "formats/encode.h"

namespace lamina::weights {
namespace {

using decoder::Parameter;

constexpr std::string_view kNone = "none";

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t out = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && at == end && out >= 0 ? std::optional(out) : std::nullopt;
}

// Reads "3" or "0-3".
std::pair<std::int64_t, std::int64_t> layers_in(const std::string& rule, std::string_view text,
                                                const std::string& where) {
  const std::size_t dash = text.find('-');
  const auto first = number_in(text.substr(0, dash));
  const auto last = dash == text.npos ? first : number_in(text.substr(dash + 1));
  if (!first || !last || *last < *first)
    throw UserError(ExitCode::usage,
                    {where,
                     fmt::format("'{}' has no range of layers; expected layers:FIRST-LAST", rule),
                     {"layers are counted from 0, eg: layers:0-3=int8"}});
  return {*first, *last};
}

bool fits(const QuantiseRule& rule, const Parameter& p) {
  if (rule.layers && (p.layer < rule.layers->first || p.layer > rule.layers->second)) return false;
  return decoder::fits(rule.match, p);
}

// The choice among the matrices that graphs can read in blocks.
class Chooser {
 public:
  Chooser(const decoder::Model& model, const Quantisation& what, DType compute,
          std::vector<bool> storable)
      : what_(what),
        parameters_(model.parameters().all()),
        storable_(std::move(storable)),
        taken_(parameters_.size()),
        storages_(parameters_.size()),
        last_layer_(model.config().num_layers() - 1) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Parameter& p = parameters_[i];
      last_layer_ = std::max(last_layer_, p.layer);
      const DType dtype = p.used_dtype(compute);
      storable_[i] = storable_[i] && p.desc.shape.ndim() >= 2 && p.num_elements() > 0 &&
                     (dtype == DType::f32 || dtype == DType::bf16) && !decoder::is_adapter(p.name);
    }
  }

  void apply(const QuantiseRule& rule) {
    bool any = false, storable = false, counts = false;
    const std::size_t first_odd = odd_rows_.size();
    std::size_t set_now = 0;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!fits(rule, parameters_[i])) continue;
      any = true;
      storable = storable || storable_[i];
      if (taken_[i]) continue;
      counts = taken_[i] = true;
      if (rule.format.empty() || !storable_[i]) continue;
      set(i, rule.format);
      ++set_now;
    }
    if (!any) refuse(rule, "matches no parameter of this model", note_on(rule));
    if (rule.layers && rule.layers->second > last_layer_)
      refuse(rule, "names layers that this model does not have", note_on(rule));
    if (!counts)
      refuse(rule, "has no effect: every parameter that it fits belongs to an earlier rule",
             "the first rule that fits a parameter applies; put the narrow ones first");
    if (!storable && !rule.format.empty())
      refuse(rule, "matches no matrix that can be quantised",
             "products, experts, the head and the embedding can; norms, biases, convolutions and "
             "parameters of scans stay as they are");
    if (set_now > 0 && odd_rows_.size() == first_odd + set_now)
      refuse(rule, "matches no matrix that can be quantised",
             fmt::format("the rows of '{}' {} are not multiples of {} values",
                         odd_rows_[first_odd].parameter->name,
                         to_string(odd_rows_[first_odd].parameter->desc.shape),
                         formats::row_unit(rule.format)));
  }

  void apply_default() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const registry::ParamDesc& desc = parameters_[i].desc;
      if (!taken_[i] && storable_[i] && desc.role == registry::Role::weight && desc.quantize)
        set(i, what_.format);
    }
  }

  std::vector<const formats::BlockFormat*> take(const StorageCheck& check) {
    const bool none = std::ranges::all_of(storages_, [](auto* storage) { return !storage; });
    if (none && odd_rows_.empty())
      throw UserError(ExitCode::usage,
                      {what_.rule_option,
                       fmt::format("leaves no matrix to quantise to {}", what_.format),
                       {"remove a rule with none"}});
    std::vector<std::string> warnings;  // `check` may declare the parameters again
    while (!odd_rows_.empty()) {
      const std::string format = odd_rows_.front().format;
      std::vector<const Parameter*> same;
      for (const OddRows& odd : odd_rows_)
        if (odd.format == format) same.push_back(odd.parameter);
      std::erase_if(odd_rows_, [&](const OddRows& odd) { return odd.format == format; });
      const bool all = none && odd_rows_.empty();
      warnings.push_back(odd_rows_text(format, same, all ? "all" : std::to_string(same.size())));
    }
    if (check) check(storages_);
    for (const std::string& warning : warnings) log::warning("{}", warning);
    return std::move(storages_);
  }

 private:
  // A matrix whose rows no block of its format divides.
  struct OddRows {
    const Parameter* parameter;
    std::string format;
  };

  void set(std::size_t i, const std::string& format) {
    storages_[i] = formats::format_for(format, parameters_[i].desc.shape[-1]);
    if (!storages_[i]) odd_rows_.push_back({&parameters_[i], format});
  }

  std::string odd_rows_text(const std::string& format, std::span<const Parameter* const> odd,
                            const std::string& count) const {
    const Parameter& p = *odd.front();
    return fmt::format(
        "matrices that should become {} stay plain, because their rows are not multiples of {} "
        "values: {}, eg: '{}' {}; this accepts that without a warning: {}",
        format, formats::row_unit(format), count, p.name, to_string(p.desc.shape),
        rules_of_none(what_.rule_key, odd));
  }

  std::string note_on(const QuantiseRule& rule) const {
    if (!rule.layers)
      return decoder::suggestion(rule.match, parameters_, decoder::MatchSyntax::rule);
    return fmt::format("its layers are 0-{}", last_layer_);
  }

  [[noreturn]] void refuse(const QuantiseRule& rule, const char* what, std::string note) const {
    throw UserError(ExitCode::usage,
                    {fmt::format("{} {}", what_.rule_option, rule.text), what, {std::move(note)}});
  }

  const Quantisation& what_;
  const std::vector<Parameter>& parameters_;
  std::vector<bool> storable_, taken_;
  std::vector<const formats::BlockFormat*> storages_;
  std::vector<OddRows> odd_rows_;
  std::int64_t last_layer_;  // with blocks of multi-token prediction, which follow the others
};

}  // namespace

std::string rules_of_none(std::string_view rule_key,
                          std::span<const decoder::Parameter* const> parameters) {
  std::vector<std::string> rules;
  for (const Parameter* p : parameters) {
    const std::string pattern = p->layer < 0 ? p->name : fmt::format("layers.*.{}", p->desc.name);
    std::string rule = rule_key.empty() ? fmt::format("--quantize-rule '{}=none'", pattern)
                                        : fmt::format("\"{}=none\"", pattern);
    if (std::ranges::find(rules, rule) == rules.end()) rules.push_back(std::move(rule));
  }
  if (rule_key.empty()) return fmt::format("{}", fmt::join(rules, " "));
  return fmt::format("{} in {}", fmt::join(rules, ", "), rule_key);
}

void check_quantise_format(std::string_view where, std::string_view name) {
  const auto names = formats::quantised_names();
  if (std::ranges::find(names, name) != names.end()) return;
  const std::string near = nearest_name(name, std::vector<std::string>(names.begin(), names.end()));
  std::vector<std::string> notes;
  if (!near.empty()) notes.push_back(fmt::format("did you mean '{}'?", near));
  throw UserError(ExitCode::usage,
                  {std::string(where),
                   fmt::format("'{}' is not a format; expected {}", name, fmt::join(names, ", ")),
                   std::move(notes)});
}

QuantiseRule parse_quantise_rule(const std::string& text, const std::string& where) {
  const std::size_t equals = text.rfind('=');
  if (equals == text.npos || equals == 0)
    throw UserError(ExitCode::usage,
                    {where,
                     fmt::format("'{}' has no pattern and format; expected PATTERN=FORMAT", text),
                     {"eg: head=int8, layers:0-3=int8, 'layers.*.attention.*=none'"}});
  QuantiseRule out{.text = text, .format = text.substr(equals + 1)};
  if (out.format == kNone)
    out.format.clear();
  else
    check_quantise_format(fmt::format("{} {}", where, text), out.format);
  const std::string pattern = text.substr(0, equals);
  const auto after = [&](std::string_view word) {
    return pattern.starts_with(word) ? std::optional(pattern.substr(word.size())) : std::nullopt;
  };
  if (const auto layers = after("layers:"))
    out.layers = layers_in(text, *layers, where);
  else if (const auto group = after("group:"))
    out.match.group = group;
  else if (const auto role = after("role:"))
    out.match.role = role;
  else if (decoder::is_role_name(pattern))
    out.match.role = pattern;
  else
    out.match.match = pattern;
  return out;
}

std::vector<const formats::BlockFormat*> choose_storage(const decoder::Model& model,
                                                        const Quantisation& what, DType compute,
                                                        const StorageCheck& check) {
  return choose_storage(model, what, compute, model.storable_parameters(), check);
}

std::vector<const formats::BlockFormat*> choose_storage(const decoder::Model& model,
                                                        const Quantisation& what, DType compute,
                                                        std::vector<bool> storable,
                                                        const StorageCheck& check) {
  Chooser chooser(model, what, compute, std::move(storable));
  for (const QuantiseRule& rule : what.rules) chooser.apply(rule);
  chooser.apply_default();
  return chooser.take(check);
}

}  // namespace lamina::weights
