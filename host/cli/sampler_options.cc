#include "cli/sampler_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "cli/prompt.h"
#include "core/error.h"
#include "decoder/call_limits.h"

namespace lamina::cli {
namespace {

// A number and what it is called in SamplerOptions.
struct Number {
  const char* name;
  double decode::SamplerOptions::*field;
  const char* doc;
  double preset;
  std::optional<double> min, max;
};
constexpr Number kPenalties[] = {
    {"repeat-penalty",
     &decode::SamplerOptions::repetition_penalty,
     "Divide the logits of tokens of the prompt and of the output by X; negative ones are "
     "multiplied.",
     1,
     0.01,
     {}},
    {"frequency-penalty",
     &decode::SamplerOptions::frequency_penalty,
     "Subtract X from the logit of a token for each time it is in the output.",
     0,
     {},
     {}},
    {"presence-penalty",
     &decode::SamplerOptions::presence_penalty,
     "Subtract X from the logits of tokens that are in the output.",
     0,
     {},
     {}},
};
constexpr Number kFilters[] = {
    {"top-p", &decode::SamplerOptions::top_p,
     "Draw from the smallest set of tokens whose probabilities add up to P.", 1, 0, 1},
    {"min-p", &decode::SamplerOptions::min_p,
     "Exclude tokens less likely than P times the likeliest.", 0, 0, 1},
    {"typical-p", &decode::SamplerOptions::typical_p,
     "Draw from the tokens nearest to the expected surprise whose probabilities add up to P.", 1, 0,
     1},
    {"epsilon-cutoff", &decode::SamplerOptions::epsilon_cutoff,
     "Exclude tokens with a probability below P.", 0, 0, 1},
    {"eta-cutoff", &decode::SamplerOptions::eta_cutoff,
     "Exclude tokens with a probability below P, and less where many are likely.", 0, 0, 1},
};

Option number(const Number& n) {
  Option out = number_option(n.name, n.preset, n.doc, n.min.value_or(0), n.max);
  out.key.min = n.min;
  return out;
}

Option repeatable(Option option) {
  option.repeatable = true;
  return option;
}

// "15=-2.5"
std::pair<std::int32_t, double> read_bias(const std::string& text) {
  const char* end = text.data() + text.size();
  std::int32_t id = -1;
  double bias = 0;
  const auto [equals, bad_id] = std::from_chars(text.data(), end, id);
  if (bad_id == std::errc() && id >= 0 && equals != end && *equals == '=') {
    const auto [stop, bad] = std::from_chars(equals + 1, end, bias);
    if (bad == std::errc() && stop == end && bias < HUGE_VAL) return {id, bias};  // no NaN
  }
  throw UserError(
      ExitCode::usage,
      {"--logit-bias",
       fmt::format("got '{}'; a token id and a number would be right, eg 15=-2.5", text),
       {}});
}

std::vector<std::int32_t> ids_of(const Arguments& a, const char* name) {
  return a.has(name) ? parse_ids(a.text(name), fmt::format("--{}", name))
                     : std::vector<std::int32_t>();
}

}  // namespace

std::vector<Option> sampler_options() {
  std::vector<Option> out = {repeatable(
      text_option("logit-bias", 0, "ID=X", "Add X to the logit of a token; may be repeated."))};
  for (const Number& n : kPenalties) out.push_back(number(n));
  out.push_back(integer_option("no-repeat-ngram", 0, 0,
                               "No run of N tokens twice, in prompt or output; 0 allows any.", 0));
  out.push_back(repeatable(text_option("bad-ids", 0, "1,2,3",
                                       "A run of token ids that must not come; may be repeated.")));
  out.push_back(
      integer_option("min-tokens", 0, 0, "Do not end before N tokens.", 0, decoder::kMaxTokens));
  out.push_back(text_option("suppress-ids", 0, "1,2,3", "Token ids that are never drawn."));
  out.push_back(
      text_option("suppress-first-ids", 0, "1,2,3", "Token ids that are not drawn first."));
  out.push_back(number_option("temp", 0.8, "Temperature; 0 always takes the likeliest token.", 0));
  out.push_back(number_option(
      "top-h", 0, "Of the 100 likeliest tokens draw from those that hold this part of the entropy.",
      0, 1));
  out.push_back(integer_option("top-k", 0, 0, "Draw from the K likeliest tokens; 0 from all.", 0));
  for (const Number& n : kFilters) out.push_back(number(n));
  out.push_back(integer_option("seed", 's', 0,
                               "Seed of the sampler; the same seed draws the same tokens.", 0));
  return out;
}

decode::SamplerOptions read_sampler_options(const Arguments& a,
                                            std::vector<std::int32_t> end_tokens) {
  decode::SamplerOptions out;
  for (const std::string& bias : a.texts("logit-bias")) out.logit_bias.push_back(read_bias(bias));
  for (const Number& n : kPenalties) out.*n.field = a.number(n.name);
  out.no_repeat_ngram = a.integer("no-repeat-ngram");
  for (const std::string& word : a.texts("bad-ids"))
    out.bad_words.push_back(parse_ids(word, "--bad-ids"));
  out.min_new_tokens = a.integer("min-tokens");
  out.end_tokens = std::move(end_tokens);
  out.suppressed = ids_of(a, "suppress-ids");
  out.suppressed_at_begin = ids_of(a, "suppress-first-ids");
  out.temperature = a.number("temp");
  out.top_h = a.number("top-h");
  out.top_k = a.integer("top-k");
  for (const Number& n : kFilters) out.*n.field = a.number(n.name);
  out.seed = static_cast<std::uint64_t>(a.integer("seed"));
  return out;
}

}  // namespace lamina::cli
