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

Generated draw(Session& session, std::span<const std::int32_t> prompt,
               const text::Tokenizer* tokenizer, const GenerateOptions& options,
               const std::function<void(std::string_view)>& emit,
               const std::function<bool()>& should_stop) {
  Generated out;
  ShownText shown(tokenizer, options, emit, out.text);
  SamplerOptions sampling = options.sampler;
  sampling.end_tokens = options.end_tokens;
  sampling.max_new_tokens = options.max_new_tokens;
  Sampler sampler(std::move(sampling));
  const Stopwatch watch;
  std::span<const float> logits;
  for (std::int64_t i = 0; i < options.max_new_tokens; ++i) {
    // The successor of the last token is not needed, so that token is not read.
    logits = i > 0 ? session.append(std::span(&out.tokens.back(), 1))
             : options.embedding_overrides.rows.empty()
                 ? session.append(prompt)
                 : session.append(prompt, options.embedding_overrides);
    check_logits(logits, session.length());
    std::int32_t token = sampler.sample(logits, static_cast<std::uint64_t>(session.length()),
                                        session.tokens(), out.tokens.size());
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
  Generated out = options.num_beams > 1
                      ? beam_search(session, prompt, tokenizer, within, emit, should_stop)
                      : draw(session, prompt, tokenizer, within, emit, should_stop);
  if (is_cut && out.reason == StopReason::length) out.reason = StopReason::context;
  return out;
}

}  // namespace lamina::decode
