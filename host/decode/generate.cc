#include "decode/generate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "core/error.h"
#include "text/utf8_stream.h"

namespace lamina::decode {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A token drawn from what is not a distribution would be noise that looks like text.
void check_logits(std::span<const float> logits, std::int64_t length) {
  bool some = false;
  for (float x : logits) {
    if (std::isnan(x) || x == INFINITY) {
      some = false;
      break;
    }
    some = some || x != -INFINITY;
  }
  if (some) return;
  throw UserError(
      ExitCode::numerical,
      {"decode",
       fmt::format("the logits after {} token{} are not numbers", length, length == 1 ? "" : "s"),
       {"the weights hold a NaN or infinity, or the type of the products is too coarse for them; "
        "try --dtype float32"}});
}

// Tokens become text that is safe to show: whole characters, no part of a stop string.
class TextOut {
 public:
  TextOut(const text::Tokenizer* tokenizer, const std::vector<std::string>& stop,
          const std::function<void(std::string_view)>& emit, std::string& text)
      : stream_(tokenizer ? tokenizer->stream(/*skip_special=*/true) : nullptr),
        stop_(stop),
        emit_(emit),
        text_(text) {}

  void push(std::int32_t token) {
    if (stream_)
      show(stop_.push(stream_->push(token)));
    else
      show(fmt::format("{}{}", text_.empty() ? "" : " ", token));
  }
  bool stopped() const { return stop_.found().has_value(); }
  void finish() {
    if (!stream_) return;
    show(stop_.push(stream_->finish()));
    if (!stopped()) show(stop_.finish());
  }

 private:
  void show(std::string_view piece) {
    if (piece.empty()) return;
    text_ += piece;
    if (emit_) emit_(piece);
  }

  std::unique_ptr<text::TextStream> stream_;
  text::StopMatcher stop_;
  const std::function<void(std::string_view)>& emit_;
  std::string& text_;
};

}  // namespace

std::string_view name(StopReason reason) {
  switch (reason) {
    case StopReason::length:
      return "length";
    case StopReason::end_token:
      return "eos";
    case StopReason::stop_string:
      return "stop";
    case StopReason::interrupted:
      return "interrupted";
  }
  return "";
}

Generated generate(Session& session, std::span<const std::int32_t> prompt,
                   const text::Tokenizer* tokenizer, const GenerateOptions& options,
                   const std::function<void(std::string_view)>& emit,
                   const std::function<bool()>& should_stop) {
  LAMINA_ASSERT(!prompt.empty());
  Generated out;
  TextOut shown(tokenizer, options.stop, emit, out.text);
  SamplerOptions sampling = options.sampler;
  sampling.end_tokens = options.end_tokens;
  sampling.max_new_tokens = options.max_new_tokens;
  Sampler sampler(std::move(sampling));
  Clock::time_point start = Clock::now();
  std::span<const float> logits;
  for (std::int64_t i = 0; i < options.max_new_tokens; ++i) {
    // The last token's successor is never asked for, so it is not read either.
    logits = i > 0 ? session.append(std::span(&out.tokens.back(), 1))
             : options.embedding_overrides.rows.empty()
                 ? session.append(prompt)
                 : session.append(prompt, options.embedding_overrides);
    check_logits(logits, session.length());
    std::int32_t token = sampler.sample(logits, static_cast<std::uint64_t>(session.length()),
                                        session.tokens(), out.tokens.size());
    if (i == 0) out.prompt_seconds = seconds_since(start);
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
  out.total_seconds = seconds_since(start);
  return out;
}

}  // namespace lamina::decode
