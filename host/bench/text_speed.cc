#include "bench/text_speed.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "chat/form.h"
#include "core/error.h"
#include "core/split_mix.h"
#include "core/stopwatch.h"
#include "decode/sampler.h"
#include "text/tokenizer.h"

namespace lamina::bench {
namespace {

double median_seconds(int repeats, const std::function<void()>& work) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const Stopwatch watch;
    work();
    seconds.push_back(watch.seconds());
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

// Alternating messages with a few words of the text in each.
chat::Conversation some_messages(std::string_view text) {
  constexpr std::size_t kWords = 200;  // bytes
  chat::Conversation out;
  for (int i = 0; i < TextSpeed::kMessages; ++i) {
    const std::size_t begin = static_cast<std::size_t>(i) * kWords % text.size();
    std::string content(text.substr(begin, kWords));
    // Templates do not depend on these characters; ASCII avoids cuts inside a character.
    std::ranges::replace_if(
        content, [](char c) { return static_cast<signed char>(c) < 0; }, 'x');
    out.add(i % 2 == 0 ? "user" : "assistant", content);
  }
  return out;
}

std::optional<double> render_seconds(const std::string& directory, std::string_view text,
                                     int repeats) {
  std::optional<chat::Form> form;
  try {
    form = chat::Form::load(directory);
  } catch (const UserError& none) {
    if (none.code() == ExitCode::data) return {};
    throw;
  }
  const chat::Conversation conversation = some_messages(text);
  return median_seconds(repeats, [&] { form->render(conversation); });
}

// Times sampling with every option that has a cost, over realistic logits.
double sample_seconds(std::int64_t vocab_size, int repeats) {
  std::uint64_t count = 0;
  const auto draw = [&] { return split_mix(1, count++); };
  std::vector<float> logits(static_cast<std::size_t>(vocab_size));
  for (float& x : logits) {
    // Nearly normal, so that few tokens are likely.
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<double>(draw() >> 11) * 0x1p-53;
    x = static_cast<float>(6 * (sum - 2));
  }
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 512; ++i)
    tokens.push_back(static_cast<std::int32_t>(draw() % static_cast<std::uint64_t>(vocab_size)));
  decode::Sampler sampler({.logit_bias = {{0, 1.0}},
                           .repetition_penalty = 1.1,
                           .frequency_penalty = 0.1,
                           .presence_penalty = 0.1,
                           .no_repeat_ngram = 3,
                           .bad_words = {{1, 2}},
                           .suppressed = {3},
                           .temperature = 0.8,
                           .top_k = 50,
                           .top_p = 0.95,
                           .min_p = 0.02,
                           .typical_p = 0.98,
                           .epsilon_cutoff = 1e-6,
                           .eta_cutoff = 1e-6,
                           .seed = 1});
  std::uint64_t index = 0;
  return median_seconds(repeats * 20,
                        [&] { sampler.sample(logits, index++, tokens, tokens.size() / 2); });
}

}  // namespace

TextSpeed bench_text(const std::string& directory, std::string_view text, int repeats,
                     const device::Device& device) {
  TextSpeed out;
  std::unique_ptr<text::Tokenizer> tokenizer = text::load_tokenizer(directory);
  out.load_seconds = median_seconds(repeats, [&] { tokenizer = text::load_tokenizer(directory); });
  out.num_entries = tokenizer->vocab_size();
  std::vector<text::TokenId> ids;
  const auto bytes = static_cast<double>(text.size());
  out.encode_bytes_per_second =
      bytes / median_seconds(repeats, [&] { ids = tokenizer->encode(text); });
  std::string whole;
  out.decode_bytes_per_second = bytes / median_seconds(repeats, [&] {
                                  const auto stream = tokenizer->stream(true);
                                  whole.clear();
                                  for (const text::TokenId id : ids) whole += stream->push(id);
                                  whole += stream->finish();
                                });
  out.render_seconds = render_seconds(directory, text, repeats);
  out.sample_seconds = sample_seconds(out.num_entries, repeats);
  out.read_seconds = TextSpeed::kModelBytes / device.read_bandwidth();
  return out;
}

}  // namespace lamina::bench
