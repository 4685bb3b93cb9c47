// lamina quantize: writes a model with quantised weights.
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "cli/ckpt/output_directory.h"
#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/signals.h"
#include "cli/shell/status_line.h"
#include "cli/shell/units.h"
#include "cli/shell/weight_choice.h"
#include "core/json_writer.h"
#include "device/workers.h"
#include "model/quantise.h"

namespace lamina::cli {
namespace {

std::string progress_text(std::uint64_t done, std::uint64_t total) {
  const auto bytes = [](std::uint64_t n) { return bytes_text(static_cast<double>(n)); };
  const double share = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  return fmt::format("quantizing {:3.0f}%  {} of {}", 100 * share, bytes(done), bytes(total));
}

// Shows the progress of a method, with the time that the rest of a stage will take.
class MethodDisplay {
 public:
  explicit MethodDisplay(StatusLine& status) : status_(&status) {}

  void operator()(model::QuantiseStage stage, std::int64_t done, std::int64_t total) {
    end_if_asked();
    if (done == 0) start_ = Clock::now();
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const auto words = words_of(stage);
    status_->show(done == total, [&](double) {
      return count_line(words.first, words.second, static_cast<std::uint64_t>(done),
                        static_cast<std::uint64_t>(total), seconds);
    });
  }

 private:
  static std::pair<const char*, const char*> words_of(model::QuantiseStage stage) {
    switch (stage) {
      case model::QuantiseStage::reading:
        return {"calibrating", "rows of the text"};
      case model::QuantiseStage::rounding:
        return {"rounding", "inputs of matrices"};
      case model::QuantiseStage::measuring:
        return {"measuring", "matrices"};
    }
    return {};
  }

  using Clock = std::chrono::steady_clock;
  StatusLine* status_;
  Clock::time_point start_;
};

model::QuantiseMethod method_of(const Arguments& a, const Device& device, StatusLine& status) {
  model::QuantiseMethod out{.backend = &device.backend()};
  if (a.has("calibrate")) out.calibrate = a.text("calibrate");
  if (a.has("calibrate-tokens") && !a.has("calibrate"))
    throw UserError(ExitCode::usage, {"--calibrate-tokens", "needs --calibrate FILE; add it", {}});
  out.calibrate_tokens = a.integer("calibrate-tokens");
  if (a.has("target-bits")) out.target_bits = a.number("target-bits");
  out.progress = MethodDisplay(status);
  return out;
}

// "12 matrices in INT4_32, 2 in INT8_128: 4.633 bits per value"
std::string formats_text(const model::QuantisedModel& made) {
  std::string out;
  for (const auto& [format, count] : made.num_matrices)
    out += out.empty()
               ? fmt::format("{} in {}",
                             count == 1 ? "1 matrix" : fmt::format("{} matrices", count), format)
               : fmt::format(", {} in {}", count, format);
  if (out.empty()) return "no matrix quantised";
  return fmt::format("{}: {:.3f} bits per value", out, made.bits_per_value);
}

int quantise(const Arguments& a, const Device& device) {
  device.use_threads(a.globals.threads);
  const std::string& from = a.positionals[0];
  const std::string to = a.text("to");
  StatusLine status(a.globals.quiet, a.globals.color);
  const weights::ExportOptions options{
      .average = a.text("weights") == "ema",
      .workers = device::workers(device),
      .progress = [&](std::uint64_t done, std::uint64_t total) {
        end_if_asked();
        status.show(done == total, [&](double) { return progress_text(done, total); });
      }};
  const model::QuantiseMethod method = method_of(a, device, status);
  const model::QuantisedModel made = model::while_training(from, [&] {
    return model::quantise_to_hf(from, to, quantisation(a, "format").value(), options,
                                 plugin_catalog(a.globals), method);
  });
  const weights::Exported& out = made.written;
  note_tokenizer(to);
  if (!a.flag("json")) {
    print(fmt::format("{}: {} tensors, {}, {}, from {}\n", to, out.num_tensors,
                      bytes_text(static_cast<double>(out.num_bytes)), formats_text(made),
                      made.directory));
    return 0;
  }
  JsonWriter json(2);
  json.begin_object().key("from").value(made.directory).key("to").value(to);
  json.key("tensors").value(out.num_tensors).key("bytes").value(out.num_bytes);
  json.key("bits_per_value").value(made.bits_per_value).key("matrices").begin_object();
  for (const auto& [format, count] : made.num_matrices) json.key(format).value(count);
  json.end_object().end_object();
  print(json.text() + "\n");
  return 0;
}

int run_quantize(const Arguments& a, const Device& device) {
  catch_stop_signals();
  try {
    return quantise(a, device);
  } catch (const StopAsked&) {
    return 128 + stop_signal();
  }
}

Option target_bits_option() {
  return {.key = {.name = "target-bits",
                  .type = Type::number,
                  .min = 0,
                  .max = 16,
                  .doc = "Most bits per value of all quantised matrices together: those that lose "
                         "most in --format become int8. Losses are measured with --calibrate by "
                         "the inputs of the text, else by the weights alone."},
          .value = "BITS"};
}

}  // namespace

Command quantize_command() {
  Option format = quantize_option();
  format.key.name = "format";
  format.key.doc = "The format of the matrices: " + quantize_formats() + ".";
  format.key.required = true;
  return {.name = "quantize",
          .summary = "writes a model with 8-bit or 4-bit weights",
          .details =
              "Writes a directory in the layout of compressed-tensors, which transformers and vLLM "
              "also read: config.json with quantization_config, safetensors, and the tokenizer and "
              "other files of the model. Without --calibrate and --target-bits, decoding from it "
              "equals `lamina decode --quantize` from the original. The directory is loaded as a "
              "check before it gets its name.",
          .options = {to_option(), format, quantize_rule_option(),
                      text_option("calibrate", 0, "FILE",
                                  "Round int4 and mxfp4 formats with error feedback (GPTQ) for the "
                                  "inputs of this text, which should be typical."),
                      integer_option(
                          "calibrate-tokens", 0, model::QuantiseMethod().calibrate_tokens,
                          "Tokens of --calibrate, in rows spread over the text.", 2, 1 << 24),
                      target_bits_option(), weights_option(), json_option()},
          .positionals = {{.name = "DIR",
                           .doc = "A Hugging Face directory, a checkpoint or a run directory."}},
          .examples = {"lamina quantize model --to model-int4 --format int4",
                       "lamina quantize model --to out --format int4-g128 --quantize-rule "
                       "head=int8"},
          .run = run_quantize};
}

}  // namespace lamina::cli
