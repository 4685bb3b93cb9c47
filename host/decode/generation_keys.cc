#include "decode/generation_keys.h"

#include <fmt/ranges.h>

#include <array>
#include <cmath>

#include "core/json_writer.h"
#include "core/printable.h"
#include "decoder/call_limits.h"

namespace lamina::decode {
namespace {

template <auto Field>
Place of_sampler(GenerateOptions& options) {
  return &(options.sampler.*Field);
}
template <auto Field>
Place of_generate(GenerateOptions& options) {
  return &(options.*Field);
}

using S = SamplerOptions;
using G = GenerateOptions;

// A higher number is probably a mistake: each beam is a separate sequence.
constexpr double kMaxBeams = 1024;
constexpr auto kMost = static_cast<double>(decoder::kMaxTokens);

constexpr std::array kKeys = {
    GenerationKey{"max-new-tokens", "max_new_tokens", of_generate<&G::max_new_tokens>, "N",
                  "Maximum number of tokens to write.", 1, kMost},
    GenerationKey{"stop", "stop_strings", of_generate<&G::stop>, "TEXT",
                  "End before this text; may be given several times."},
    GenerationKey{"ignore-eos", "", of_generate<&G::ignore_end>, "",
                  "Do not stop at the end token."},
    GenerationKey{"logit-bias", "sequence_bias", of_sampler<&S::logit_bias>, "ID=X",
                  "Add X to the logit of a token; may be repeated."},
    GenerationKey{"repeat-penalty", "repetition_penalty", of_sampler<&S::repetition_penalty>, "X",
                  "Divide the logits of tokens in the prompt and output by X; multiply negative "
                  "logits.",
                  0.01},
    GenerationKey{"repeat-last-n", "", of_sampler<&S::repeat_last_n>, "N",
                  "Apply --repeat-penalty to the last N tokens of prompt and output only; -1: to "
                  "all; 0: to none.",
                  -1},
    GenerationKey{
        "frequency-penalty", "", of_sampler<&S::frequency_penalty>, "X",
        "Subtract X from the logit of a token for each of its occurrences in the output."},
    GenerationKey{"presence-penalty", "", of_sampler<&S::presence_penalty>, "X",
                  "Subtract X from the logits of tokens that are in the output."},
    GenerationKey{"no-repeat-ngram", "no_repeat_ngram_size", of_sampler<&S::no_repeat_ngram>, "N",
                  "Do not repeat any run of N tokens of prompt or output; 0 allows all.", 0},
    GenerationKey{"bad-ids", "bad_words_ids", of_sampler<&S::bad_words>, "1,2,3",
                  "A run of token ids to exclude; may be repeated."},
    GenerationKey{"min-tokens", "min_new_tokens", of_sampler<&S::min_new_tokens>, "N",
                  "Do not end before N tokens.", 0, kMost},
    GenerationKey{"", "forced_bos_token_id", of_sampler<&S::forced_second>, "", ""},
    GenerationKey{"force-first-ids", "", of_sampler<&S::forced_first>, "1,2,3",
                  "Token ids at the start of the output."},
    GenerationKey{"force-last-ids", "forced_eos_token_id", of_sampler<&S::forced_last>, "1,2,3",
                  "If -n is reached, the last token is one of these ids."},
    GenerationKey{"suppress-ids", "suppress_tokens", of_sampler<&S::suppressed>, "1,2,3",
                  "Token ids to exclude."},
    GenerationKey{"suppress-first-ids", "begin_suppress_tokens",
                  of_sampler<&S::suppressed_at_begin>, "1,2,3",
                  "Token ids to exclude as the first token."},
    GenerationKey{"temp",
                  "temperature",
                  of_sampler<&S::temperature>,
                  "X",
                  "Temperature; 0 always takes the likeliest token.",
                  0,
                  {},
                  TokenChoice::drawing},
    GenerationKey{
        "top-h", "top_h", of_sampler<&S::top_h>, "H",
        "Draw from the tokens that make up the share H of the entropy of the 100 likeliest.", 0, 1,
        TokenChoice::drawing},
    GenerationKey{"top-k",
                  "top_k",
                  of_sampler<&S::top_k>,
                  "K",
                  "Draw from the K likeliest tokens; 0: from all.",
                  0,
                  {},
                  TokenChoice::drawing},
    GenerationKey{"top-p", "top_p", of_sampler<&S::top_p>, "P",
                  "Draw from the smallest set of tokens whose probabilities add up to P.", 0, 1,
                  TokenChoice::drawing},
    GenerationKey{"min-p", "min_p", of_sampler<&S::min_p>, "P",
                  "Exclude tokens less likely than P times the likeliest.", 0, 1,
                  TokenChoice::drawing},
    GenerationKey{
        "typical-p", "typical_p", of_sampler<&S::typical_p>, "P",
        "Draw from the tokens nearest to the expected surprise whose probabilities add up to P.", 0,
        1, TokenChoice::drawing},
    GenerationKey{"epsilon-cutoff", "epsilon_cutoff", of_sampler<&S::epsilon_cutoff>, "P",
                  "Exclude tokens with a probability below P.", 0, 1, TokenChoice::drawing},
    GenerationKey{
        "eta-cutoff", "eta_cutoff", of_sampler<&S::eta_cutoff>, "P",
        "Exclude tokens with a probability below the smaller of P and sqrt(P) * exp(-entropy).", 0,
        1, TokenChoice::drawing},
    GenerationKey{"seed",
                  "",
                  of_sampler<&S::seed>,
                  "N",
                  "Seed of the sampler; the same seed draws the same tokens.",
                  0,
                  {},
                  TokenChoice::drawing},
    GenerationKey{"beams", "num_beams", of_generate<&G::num_beams>, "N",
                  "Search for the likeliest text with N beams, without sampling.", 1, kMaxBeams,
                  TokenChoice::beams},
    GenerationKey{"length-penalty",
                  "length_penalty",
                  of_generate<&G::length_penalty>,
                  "X",
                  "With --beams: divide scores by the length to the power of X; higher favours "
                  "longer texts.",
                  {},
                  {},
                  TokenChoice::beams},
    GenerationKey{"early-stopping",
                  "early_stopping",
                  of_generate<&G::early_stopping>,
                  "WHEN",
                  "With --beams: when to end. yes: once N texts have ended; no: once no open text "
                  "is better than they are; never: once none can become better.",
                  {},
                  {},
                  TokenChoice::beams},
};

struct ToText {
  std::string operator()(const double* x) const { return fmt::format("{}", *x); }
  std::string operator()(const std::int64_t* x) const { return fmt::format("{}", *x); }
  std::string operator()(const std::uint64_t* x) const { return fmt::format("{}", *x); }
  std::string operator()(const bool* x) const { return *x ? "on" : "off"; }
  std::string operator()(const EarlyStopping* when) const { return std::string(name(*when)); }
  std::string operator()(const Ids* ids) const { return fmt::format("{}", fmt::join(*ids, ",")); }
  std::string operator()(const Texts* texts) const {
    std::vector<std::string> out;
    for (const std::string& text : *texts)
      out.push_back(printable(text, text.size()) == text ? text : json_quote(text));
    return fmt::format("{}", fmt::join(out, " "));
  }
  std::string operator()(const Words* words) const {
    std::vector<std::string> out;
    for (const Ids& word : *words) out.push_back((*this)(&word));
    return (*this)(&out);
  }
  std::string operator()(const Biases* biases) const {
    std::vector<std::string> out;
    for (const auto& [id, bias] : *biases) out.push_back(fmt::format("{}={}", id, bias));
    return (*this)(&out);
  }
};

}  // namespace

std::span<const GenerationKey> generation_keys() { return kKeys; }

bool fits_float32(double value) {
  using Limits = std::numeric_limits<float>;
  const double size = std::abs(value);
  return size == 0 ||
         (size >= static_cast<double>(Limits::min()) && size <= static_cast<double>(Limits::max()));
}

std::string_view name(EarlyStopping when) {
  switch (when) {
    case EarlyStopping::yes:
      return "yes";
    case EarlyStopping::no:
      return "no";
    case EarlyStopping::never:
      return "never";
  }
  return "";
}

std::optional<EarlyStopping> parse_early_stopping(std::string_view text) {
  for (const EarlyStopping when : {EarlyStopping::yes, EarlyStopping::no, EarlyStopping::never})
    if (name(when) == text) return when;
  return {};
}

std::string value_text(const GenerationKey& key, GenerateOptions options) {
  std::string out = std::visit(ToText(), key.place(options));
  return out.empty() ? kNone : out;
}

}  // namespace lamina::decode
