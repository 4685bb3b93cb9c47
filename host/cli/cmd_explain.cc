// lamina explain: what becomes of a model: graphs, kernels, memory. Needs neither data nor weights.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/explain/memory_picture.h"
#include "cli/explain/pass_printer.h"
#include "cli/plugins.h"
#include "cli/units.h"
#include "core/log.h"
#include "core/stopwatch.h"
#include "decoder/call_limits.h"
#include "model/open.h"
#include "model/training.h"
#include "passes/pipeline.h"
#include "program/bound_program.h"
#include "train/gradients.h"
#include "train/row_gradients.h"
#include "train/run.h"

namespace lamina::cli {
namespace {

// What is to be explained, from the run file or from defaults, and from options.
struct Subject {
  std::unique_ptr<decoder::Model> model;
  std::string phase;
  std::int64_t batch = 1;
  std::int64_t tokens = 1;    // of a call or of a row
  std::int64_t capacity = 1;  // of decode state
  DType dtype = DType::bf16;
  train::RematPolicy remat = train::find_remat_policy("none");
  bool segments = false;
  std::shared_ptr<const train::Task> task = train::next_token_task();
};

Subject find_subject(const Arguments& a) {
  const std::string& path = a.positionals[0];
  Subject s;
  std::string phase = "decode";
  std::int64_t tokens = 512;
  if (config::is_run_file(path)) {
    config::RunConfig c = config::load_run(path, {a.texts("set"), config::process_environment()});
    s.model = model::open_trained(c, plugin_catalog(a.globals));
    phase = "train";
    s.batch = c.train.microbatch_size;
    tokens = c.data.sequence_length;
    s.dtype = c.train.dtype;
    s.remat = train::remat_policy(train::loop_options(c).step(), *s.model, config::place_in(c));
    s.segments = c.data.pack;
    s.task = train::loop_options(c).task;
  } else {
    require_description(path);
    s.model =
        std::move(model::open(path, plugin_catalog(a.globals),
                              {.compress_tokens = decoder::uncompressed_tokens}, a.texts("set"))
                      .model);
  }
  s.phase = a.has("phase") ? a.text("phase") : phase;
  if (a.has("batch")) s.batch = a.integer("batch");
  if (a.has("tokens")) tokens = a.integer("tokens");
  if (a.has("dtype")) s.dtype = *parse_dtype(a.text("dtype"));
  // Decoding writes one token; --tokens is then what the state holds.
  s.tokens = s.phase == "decode" ? 1 : tokens;
  s.capacity = tokens;
  return s;
}

decoder::ModelGraph trace(const Subject& s) {
  if (s.phase == "train")
    return s.task->loss_graph(*s.model, {s.batch, s.tokens, s.dtype},
                              train::all_losses(s.segments));
  return s.model->decode_graph({s.batch, s.tokens, s.dtype}, {s.capacity, s.capacity});
}

program::BoundProgram compile(const Subject& s, const Backend& backend,
                              const passes::Observer& observer) {
  decoder::ModelGraph graph = trace(s);
  if (observer) observer("as traced", graph.graph);
  if (s.phase == "train") {
    if (observer) graph.graph = passes::simplify(std::move(graph.graph), observer);
    graph = train::add_gradients(std::move(graph), s.model->parameters(), s.remat.save_policy());
    if (observer) observer("add gradients", graph.graph);
    graph = train::list_table_gradients(std::move(graph));
    if (observer) observer("list gradients of tables", graph.graph);
  }
  return program::BoundProgram(std::move(graph), backend, observer);
}

std::string headline(const Subject& s) {
  std::vector<std::string> blocks;
  for (const registry::Block& block : s.model->family().blocks()) {
    blocks.resize(std::max<std::size_t>(blocks.size(), block.id + 1));
    blocks[block.id] = block.name;
  }
  std::string what = s.phase == "train" ? fmt::format("rematerialisation '{}'", s.remat.name)
                                        : fmt::format("decode state of {} tokens", s.capacity);
  return fmt::format("model   {}: {} parameters; {}\nphase   {}: batch {}, {} tokens, {}, {}\n\n",
                     s.model->family().name(), thousands_text(s.model->parameters().num_elements()),
                     decoder::to_string(s.model->stack(), blocks), s.phase, s.batch, s.tokens,
                     long_name(s.dtype), what);
}

int run(const Arguments& a, const Machine& machine) {
  machine.use_threads(a.globals.threads);
  Subject subject = find_subject(a);
  const std::string& show = a.text("show");
  const Stopwatch watch;
  compile(subject, machine.backend, {});
  const double seconds = watch.seconds();
  log::debug("traced and compiled in {:.1f} ms", 1e3 * seconds);

  print(headline(subject));
  PassPrinter passes(show == "all" || show == "passes");
  program::BoundProgram program = compile(subject, machine.backend, std::ref(passes));
  if (show == "all" || show == "kernels")
    print("== kernels, and why better ones were refused\n" + program.program().describe() + "\n");
  if (show == "all" || show == "memory")
    print("== memory plan\n" + memory_picture(program.program()));
  return 0;
}

}  // namespace

Command explain_command() {
  return {
      .name = "explain",
      .summary = "shows how a model is compiled: graphs, kernels, memory",
      .details =
          "Prints the graph as traced and after each pass that changed it, the kernel chosen for "
          "each node with why better ones were refused, and where temporaries are placed in memory "
          "and "
          "for how long. Needs neither data nor weights. With -v it says how long tracing and "
          "compiling took.",
      .options = {choice_option(
                      "phase", "PHASE", {"train", "prefill", "decode"}, {},
                      "What to compile for: train for run files, decode for models, unless "
                      "given."),
                  choice_option("show", "PART", {"all", "passes", "kernels", "memory"}, "all",
                                "Print only this part."),
                  integer_option(
                      "tokens", 'n', {},
                      "Tokens per row or prompt; for decode, of the decode state. Default: the run "
                      "file's, or 512.",
                      1, decoder::kMaxTokens),
                  integer_option("batch", 'b', {},
                                 "Rows. Default: the run file's microbatch, or 1.", 1,
                                 decoder::kMaxTokens),
                  choice_option("dtype", "TYPE", {"float32", "bfloat16"}, {},
                                "Type to compute in. Default: the run file's, or bfloat16."),
                  set_option()},
      .positionals = {{.name = "RUN.toml|MODEL",
                       .doc = "A run file, a model file or a directory with a model."}},
      .examples = {"lamina explain configs/train/quickstart.toml",
                   "lamina explain configs/models/bench-0.6b.toml --phase prefill --show kernels"},
      .run = run};
}

}  // namespace lamina::cli
