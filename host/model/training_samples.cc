#include "model/training_samples.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "decode/generate.h"

namespace lamina::model {
namespace {

constexpr const char* kPrompts = "train.sample_prompts";

[[noreturn]] void refuse(const config::RunConfig& run, std::string what, std::string remedy) {
  throw UserError(ExitCode::usage,
                  {run.values.where(kPrompts), std::move(what), {std::move(remedy)}});
}

}  // namespace

TrainingSamples::TrainingSamples(const config::RunConfig& run, const decoder::Model& model,
                                 const text::Tokenizer& tokenizer, const Backend& backend)
    : run_(run), model_(model), tokenizer_(tokenizer), backend_(backend) {
  if (!model.is_autoregressive())
    refuse(run, "this model sees later tokens, too, so it goes on with no text",
           "leave out train.sample_every_steps");
  const auto limit = model.config().max_positions();
  for (const std::string& text : run.train.sample_prompts) {
    std::vector<std::int32_t> ids = tokenizer.encode(text);
    if (ids.empty() && tokenizer.bos_id()) ids.push_back(*tokenizer.bos_id());
    if (ids.empty())
      refuse(run, "a prompt has no tokens, and this tokenizer has none that begins a text",
             "give it at least one character");
    const auto length = static_cast<std::int64_t>(ids.size());
    if (limit && length > *limit)
      refuse(
          run,
          fmt::format("a prompt has {} tokens; the model was made for at most {}", length, *limit),
          "shorten it");
    context_ = std::max(context_, length + run.train.sample_tokens - 1);
    prompts_.push_back(std::move(ids));
  }
  if (limit) context_ = std::min(context_, *limit);
}

std::vector<train::Sample> TrainingSamples::sample(std::span<void* const> used) {
  if (!session_)
    session_ = std::make_unique<decode::Session>(
        model_, used,
        decode::SessionOptions{
            .capacity = context_, .call_tokens = context_, .dtype = run_.train.dtype},
        backend_);
  std::vector<train::Sample> out;
  for (std::size_t i = 0; i < prompts_.size(); ++i) {
    session_->reset();
    decode::GenerateOptions options{
        .max_new_tokens = std::min(run_.train.sample_tokens,
                                   context_ - static_cast<std::int64_t>(prompts_[i].size()) + 1)};
    if (tokenizer_.eos_id()) options.end_tokens = {*tokenizer_.eos_id()};
    options.sampler.temperature = run_.train.sample_temperature;
    options.sampler.seed = run_.run.seed + i;
    const decode::Generated generated =
        decode::generate(*session_, prompts_[i], &tokenizer_, options, [](std::string_view) {});
    out.push_back({run_.train.sample_prompts[i], generated.text});
  }
  return out;
}

}  // namespace lamina::model
