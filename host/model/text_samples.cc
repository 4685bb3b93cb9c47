#include "model/text_samples.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "decode/generate.h"

namespace lamina::model {

TextSampleOptions training_samples(const config::RunConfig& run) {
  return {.prompts = run.train.sample_prompts,
          .max_new_tokens = run.train.sample_tokens,
          .temperature = run.train.sample_temperature,
          .seed = run.run.seed,
          .dtype = run.train.dtype,
          .place = run.values.where("train.sample_prompts"),
          .instead = "remove train.sample_every_steps"};
}

TextSamples::TextSamples(TextSampleOptions options, const decoder::Model& model,
                         const text::Tokenizer& tokenizer, const Backend& backend)
    : options_(std::move(options)), model_(model), tokenizer_(tokenizer), backend_(backend) {
  const auto refuse = [this](std::string what, std::string remedy) {
    throw UserError(ExitCode::usage, {options_.place, std::move(what), {std::move(remedy)}});
  };
  if (!model.is_autoregressive())
    refuse("this model sees later tokens and cannot continue text", options_.instead);
  const auto limit = model.max_length();
  for (const std::string& text : options_.prompts) {
    std::vector<std::int32_t> ids = tokenizer.encode(text);
    if (ids.empty() && tokenizer.bos_id()) ids.push_back(*tokenizer.bos_id());
    if (ids.empty())
      refuse("a prompt has no tokens, and this tokenizer has no token that begins a text",
             "use at least one character");
    const auto length = static_cast<std::int64_t>(ids.size());
    if (limit && length > *limit)
      refuse(fmt::format("a prompt has {} tokens; the maximum of the model is {}", length, *limit),
             "shorten it");
    context_ = std::max(context_, length + options_.max_new_tokens - 1);
    prompts_.push_back(std::move(ids));
  }
  if (limit) context_ = std::min(context_, *limit);
  if (options_.end_tokens.empty() && tokenizer.eos_id())
    options_.end_tokens = {*tokenizer.eos_id()};
}

std::optional<std::vector<train::Sample>> TextSamples::sample(
    std::span<const ConstTensorRef> weights, const std::function<bool()>& should_stop) {
  if (!session_)
    session_ = std::make_unique<decode::Session>(
        model_, weights,
        decode::SessionOptions{
            .capacity = context_, .call_tokens = context_, .dtype = options_.dtype},
        backend_);
  std::vector<train::Sample> out;
  for (std::size_t i = 0; i < prompts_.size(); ++i) {
    if (should_stop && should_stop()) return std::nullopt;
    session_->reset();
    decode::GenerateOptions generate{
        .max_new_tokens = std::min(options_.max_new_tokens,
                                   context_ - static_cast<std::int64_t>(prompts_[i].size()) + 1),
        .end_tokens = options_.end_tokens};
    generate.sampler.temperature = options_.temperature;
    generate.sampler.seed = options_.seed + i;
    const decode::Generated generated = decode::generate(
        *session_, prompts_[i], &tokenizer_, generate, [](std::string_view) {}, should_stop);
    if (generated.reason == decode::StopReason::interrupted) return std::nullopt;
    out.push_back({options_.prompts[i], generated.text});
  }
  return out;
}

}  // namespace lamina::model
