#include "decode/generate.h"

#include <algorithm>

#include "core/error.h"
#include "core/stopwatch.h"
#include "decode/beam_search.h"
#include "decode/shown_text.h"

namespace lamina::decode {

std::string_view name(StopReason reason) {
  switch (reason) {
    case StopReason::length:
      return "length";
    case StopReason::context:
      return "context";
    case StopReason::end_token:
      return "eos";
    case StopReason::stop_string:
      return "stop";
    case StopReason::interrupted:
      return "interrupted";
  }
  return "";
}

namespace {

// Shortlists of a session until the end of the object.
class ShortlistScope {
 public:
  ShortlistScope(Session& session, const ShortlistShape& shape) : session_(session) {
    session.set_shortlists(shape);
  }
  ~ShortlistScope() { session_.set_shortlists({}); }
  ShortlistScope(const ShortlistScope&) = delete;
  ShortlistScope& operator=(const ShortlistScope&) = delete;

 private:
  Session& session_;
};

// Chooses the token after the tokens of the session. `logits`: the result of append().
std::int32_t next_token(Session& session, Sampler& sampler, std::span<const float> logits,
                        std::size_t num_output) {
  const auto index = static_cast<std::uint64_t>(session.length());
  if (session.has_shortlists()) {
    if (const auto token = sampler.sample(session.shortlist(), index, session.tokens(), num_output))
      return *token;
    logits = session.logits();
  }
  check_logits(logits, session.length());
  return sampler.sample(logits, index, session.tokens(), num_output);
}

Generated draw(Session& session, std::span<const std::int32_t> prompt,
               const text::Tokenizer* tokenizer, const GenerateOptions& options,
               const std::function<void(std::string_view)>& emit,
               const std::function<bool()>& should_stop) {
  Generated out;
  ShownText shown(tokenizer, options, emit, out.text);
  if (!options.begins_text) {
    shown.follow(session.tokens());
    shown.follow(prompt);
  }
  Sampler sampler(options.sampler);
  // Log probabilities need whole rows.
  const ShortlistScope scope(
      session, options.num_logprobs > 0 ? ShortlistShape{}
                                        : shortlist_shape(sampler.options(), session.vocab_size()));
  const Stopwatch watch;
  std::span<const float> logits;
  for (std::int64_t i = 0; i < options.max_new_tokens; ++i) {
    // The successor of the last token is not needed, so that token is not read.
    const std::span<const std::int32_t> read =
        i > 0 ? std::span<const std::int32_t>(&out.tokens.back(), 1) : prompt;
    if (session.has_shortlists()) {
      const double draw =
          sampler.uniform(static_cast<std::uint64_t>(session.length()) + read.size());
      session.set_draws(sampler.options().temperature, std::span(&draw, 1));
    }
    logits = i > 0 || options.embedding_overrides.rows.empty()
                 ? session.append(read)
                 : session.append(read, options.embedding_overrides);
    const std::int32_t token = next_token(session, sampler, logits, out.tokens.size());
    if (i == 0) out.prompt_seconds = watch.seconds();
    if (!options.ignore_end &&
        std::ranges::find(options.end_tokens, token) != options.end_tokens.end()) {
      out.reason = StopReason::end_token;
      break;
    }
    out.tokens.push_back(token);
    if (options.num_logprobs > 0)
      out.logprobs.push_back(
          {log_probability(logits, token),
           best_log_probabilities(logits, static_cast<std::size_t>(options.num_logprobs))});
    shown.push(token);
    if (shown.stopped()) {
      out.reason = StopReason::stop_string;
      break;
    }
    if (should_stop && should_stop()) {
      out.reason = StopReason::interrupted;
      break;
    }
  }
  shown.finish();
  if (shown.stopped()) out.reason = StopReason::stop_string;
  out.total_seconds = watch.seconds();
  return out;
}

}  // namespace

Generated generate(Session& session, std::span<const std::int32_t> prompt,
                   const text::Tokenizer* tokenizer, const GenerateOptions& options,
                   const std::function<void(std::string_view)>& emit,
                   const std::function<bool()>& should_stop) {
  LAMINA_ASSERT(!prompt.empty());
  const bool is_cut = options.room_tokens < options.max_new_tokens;
  GenerateOptions within = options;
  within.max_new_tokens = std::min(options.max_new_tokens, options.room_tokens);
  within.sampler.end_tokens = options.end_tokens;
  within.sampler.max_new_tokens = options.max_new_tokens;  // no forced end where the context cuts
  Generated out = options.num_beams > 1
                      ? beam_search(session, prompt, tokenizer, within, emit, should_stop)
                      : draw(session, prompt, tokenizer, within, emit, should_stop);
  if (is_cut && out.reason == StopReason::length) out.reason = StopReason::context;
  return out;
}

}  // namespace lamina::decode
