// lamina explain: shows how a model is compiled: graphs, kernels, memory. Needs no data or weights.
#include "cli/explain/lowered_ops.h"
#include "cli/explain/memory_picture.h"
#include "cli/explain/occupancy_text.h"
#include "cli/explain/pass_printer.h"
#include "cli/explain/prediction_text.h"
#include "cli/explain/subject.h"
#include "cli/plan/storage_text.h"
#include "cli/shell/command.h"
#include "cli/shell/weight_choice.h"
#include "core/log.h"
#include "core/stopwatch.h"
#include "decoder/call_limits.h"

namespace lamina::cli {
namespace {

int run_explain(const Arguments& a, const Device& device) {
  device.use_threads(a.globals.threads);
  const std::string& show = a.text("show");
  if (device.computes() && (show == "occupancy" || show == "time"))
    throw UserError(ExitCode::usage,
                    {"--show",
                     fmt::format("'{}' needs a described GPU, got {}", show, device.name()),
                     {"use eg --device cuda:h200, which needs no GPU"}});
  Subject subject = find_subject(a);
  const Stopwatch watch;
  compile(subject, device.backend(), {});
  const double seconds = watch.seconds();
  log::debug("traced and compiled in {:.1f} ms", 1e3 * seconds);

  print(headline(subject));
  if (const std::string storage =
          storage_text(inspect::parameter_storage(*subject.model, subject.dtype));
      !storage.empty() && show == "all")
    print(storage + "\n");
  PassPrinter passes(show == "all" || show == "passes");
  LoweredOps lowered(device.backend());
  program::BoundProgram program =
      compile(subject, device.backend(), [&](std::string_view pass, const Graph& graph) {
        passes(pass, graph);
        lowered(pass, graph);
      });
  if (show == "all" || show == "kernels")
    print(lowered.text() + "== kernels, and reasons against faster ones\n" +
          program.program().describe() + "\n");
  if (!device.computes() && (show == "all" || show == "occupancy"))
    print(occupancy_text(device, program.program()));
  if (show == "all" || show == "memory")
    print("== memory plan\n" + memory_picture(program.program()));
  if (!device.computes() && (show == "all" || show == "time"))
    print(prediction_text(program.program(), device, subject));
  return 0;
}

}  // namespace

Command explain_command() {
  return {
      .name = "explain",
      .summary = "shows how a model is compiled: graphs, kernels, memory",
      .details =
          "Prints the graph as traced and after each pass that changed it, the kernel of each "
          "node and the reasons against faster kernels, the reason why an op of a plugin is "
          "computed by its lowering, and the place and lifetime of each temporary in memory. Needs "
          "neither data nor weights. With --device cuda:h200 (or a100, "
          "h100, rtx3090, rtx4090) it needs no GPU either, shows how many warps of each kernel "
          "run at once, and predicts the time by the card's data sheet. -v shows the time of "
          "tracing and compiling.",
      .options = {device_option(), packed_option(), quantize_option(), quantize_rule_option(),
                  kv_dtype_option(),
                  choice_option(
                      "phase", "PHASE", {"train", "prefill", "decode"}, {},
                      "Phase to compile; default: train for run files, decode for models."),
                  choice_option("show", "PART",
                                {"all", "passes", "kernels", "occupancy", "memory", "time"}, "all",
                                "Print only this part; occupancy and time: of GPUs that are only "
                                "described."),
                  integer_option("tokens", 'n', {},
                                 "Tokens per row or prompt; for decode, capacity of the decode "
                                 "state. Default: the run file's, or 512 within the model's "
                                 "positions.",
                                 1, decoder::kMaxTokens),
                  integer_option("batch", 'b', {},
                                 "Rows. Default: the run file's microbatch, or 1.", 1,
                                 decoder::kMaxTokens),
                  dtype_option({}, "Type to compute in. Default: the run file's, or bfloat16."),
                  set_option()},
      .positionals = {{.name = "RUN.toml|MODEL",
                       .doc = "A run file, a model file or a directory with a model."}},
      .examples = {"lamina explain configs/train/quickstart.toml",
                   "lamina explain configs/models/bench-0.6b.toml --phase prefill --show kernels",
                   "lamina explain configs/models/bench-0.6b.toml --device cuda:h200 --show time"},
      .run = run_explain,
      .takes_described_devices = true};
}

}  // namespace lamina::cli
