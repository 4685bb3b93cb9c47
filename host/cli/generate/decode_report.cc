#include "cli/generate/decode_report.h"

#include <fmt/format.h>

#include "cli/shell/terminal.h"
#include "cli/shell/units.h"
#include "core/json_writer.h"
#include "core/log.h"
#include "runtime/pending_uploads.h"
#include "runtime/recorder.h"

namespace lamina::cli {

std::string_view end_in_words(decode::StopReason reason) {
  switch (reason) {
    case decode::StopReason::length:
      return "stopped by the limit -n";
    case decode::StopReason::context:
      return "stopped by the end of the context";
    case decode::StopReason::end_token:
      return "stopped by an end token";
    case decode::StopReason::stop_string:
      return "stopped by a stop string";
    case decode::StopReason::interrupted:
      return "interrupted";
  }
  return "";
}

std::string decode_rate_text(const decode::Generated& generated) {
  if (generated.tokens.size() < 2) return "";
  const double seconds = generated.total_seconds - generated.prompt_seconds;
  return fmt::format(" ({})",
                     token_rate_text(static_cast<double>(generated.tokens.size() - 1) / seconds));
}

void print_stats(const decode::Generated& g, const Timings& t, const decode::Session& session,
                 const decode::SamplerOptions& sampler, const device::Device& device) {
  const std::string reason = device::why_cpu();
  log::info("device {} ({}){}", device.name(), device.isa(),
            reason.empty() ? "" : "; no GPU: " + reason);
  if (const auto* queue = dynamic_cast<const Recorder*>(&device.backend().context().queue())) {
    const Recorder::Counts counts = queue->recorded();
    log::info("{} CUDA graphs of up to {} nodes, {} updated, {} replays", counts.graphs,
              counts.nodes, counts.updates, counts.replays);
  }
  if (auto* queue = dynamic_cast<PendingUploads*>(&device.backend().context().queue())) {
    const PendingUploads::Times times = queue->times();
    log::info("uploaded {} of weights in {} beside other work, which waited {} for it",
              bytes_text(times.bytes), milliseconds_text(times.seconds),
              milliseconds_text(times.waited_seconds));
  }
  log::info("loaded in {}; prompt {} in {} ({}); first token {} after the start",
            milliseconds_text(t.load_seconds),
            number_of(static_cast<std::int64_t>(t.prompt_tokens), "token"),
            milliseconds_text(g.prompt_seconds),
            token_rate_text(static_cast<double>(t.prompt_tokens) / g.prompt_seconds),
            milliseconds_text(t.start_seconds + g.prompt_seconds));
  log::info("wrote {} in {}{}; {}; state {}, seed {}", number_of(std::ssize(g.tokens), "token"),
            milliseconds_text(g.total_seconds), decode_rate_text(g), end_in_words(g.reason),
            bytes_text(static_cast<double>(session.state_bytes())), sampler.seed);
}

void print_json(const decode::Generated& g, const Timings& t, const decode::SamplerOptions& sampler,
                const std::optional<chat::Thought>& answer) {
  JsonWriter json(2);
  json.begin_object().key("text").value(g.text);
  if (answer && !answer->reasoning.empty()) json.key("reasoning_content").value(answer->reasoning);
  if (answer) json.key("content").value(answer->answer);
  json.key("ids").begin_array();
  for (std::int32_t id : g.tokens) json.value(id);
  json.end_array();
  if (!g.logprobs.empty()) {
    json.key("logprobs").begin_array();
    for (std::size_t i = 0; i < g.logprobs.size(); ++i) {
      json.begin_object().key("id").value(g.tokens[i]);
      json.key("logprob").value(g.logprobs[i].chosen).key("top").begin_array();
      for (const auto& [id, logprob] : g.logprobs[i].best)
        json.begin_object().key("id").value(id).key("logprob").value(logprob).end_object();
      json.end_array().end_object();
    }
    json.end_array();
  }
  json.key("finish_reason").value(decode::name(g.reason));
  json.key("seed").value(sampler.seed).key("timings").begin_object();
  json.key("load_seconds").value(t.load_seconds).key("prompt_tokens").value(t.prompt_tokens);
  json.key("first_token_seconds").value(t.start_seconds + g.prompt_seconds);
  json.key("prompt_seconds").value(g.prompt_seconds).key("generated_tokens").value(g.tokens.size());
  json.key("total_seconds").value(g.total_seconds).end_object().end_object();
  print(json.text() + "\n");
}

}  // namespace lamina::cli
