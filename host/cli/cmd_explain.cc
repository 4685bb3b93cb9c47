// lamina explain: what becomes of a model: graphs, kernels, memory. Needs neither data nor weights.
#include <fmt/format.h>

#include <chrono>

#include "backends/cpu/backend.h"
#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/explain/memory_picture.h"
#include "cli/open_model.h"
#include "cli/units.h"
#include "core/log.h"
#include "decoder/bound_program.h"
#include "decoder/call_limits.h"
#include "passes/pipeline.h"
#include "train/gradients.h"
#include "train/row_gradients.h"

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
  autodiff::RematPolicy remat = autodiff::find_remat_policy("none");
  bool segments = false;
};

Subject find_subject(const Arguments& a) {
  const std::string& path = a.positionals[0];
  Subject s;
  std::string phase = "decode";
  std::int64_t tokens = 512;
  if (is_run_file(path)) {
    config::RunConfig c = config::load_run(path, {a.texts("set"), config::process_environment()});
    s.model = std::make_unique<decoder::Model>(make_model(
        c.model, a.globals,
        {.scan_layers = c.train.scan_layers, .compress_tokens = decoder::uncompressed_tokens}));
    phase = "train";
    s.batch = c.train.microbatch_size;
    tokens = c.data.sequence_length;
    s.dtype = c.train.dtype;
    s.remat = train::remat_policy(c, *s.model);
    s.segments = c.data.pack;
  } else {
    require_description(path);
    s.model =
        std::move(open_model(path, a.globals, {.compress_tokens = decoder::uncompressed_tokens},
                             a.texts("set"))
                      .model);
  }
  s.phase = a.given("phase") ? a.text("phase") : phase;
  if (a.given("batch")) s.batch = a.integer("batch");
  if (a.given("tokens")) tokens = a.integer("tokens");
  if (a.given("dtype")) s.dtype = *parse_dtype(a.text("dtype"));
  // Decoding writes one token; --tokens is then what the state holds.
  s.tokens = s.phase == "decode" ? 1 : tokens;
  s.capacity = tokens;
  return s;
}

decoder::ModelGraph trace(const Subject& s) {
  if (s.phase == "train")
    return s.model->loss_graph({.batch = s.batch,
                                .tokens = s.tokens,
                                .dtype = s.dtype,
                                .segments = s.segments,
                                .training = true,
                                .aux = true,
                                .mtp = true});
  return s.model->decode_graph({.batch = s.batch,
                                .tokens = s.tokens,
                                .capacity = s.capacity,
                                .max_call_tokens = s.capacity,
                                .dtype = s.dtype});
}

// Prints a graph after each pass that changed it.
class PassPrinter {
 public:
  explicit PassPrinter(bool enabled) : enabled_(enabled) {}

  void operator()(std::string_view pass, const Graph& graph) {
    if (!enabled_) return;
    std::string text = to_string(graph);
    if (text == last_) {
      print(fmt::format("== after '{}': unchanged\n\n", pass));
      return;
    }
    print(fmt::format("== {}: {} nodes\n{}\n",
                      last_.empty() ? std::string(pass) : fmt::format("after '{}'", pass),
                      graph.nodes().size(), text));
    last_ = std::move(text);
  }

 private:
  bool enabled_;
  std::string last_;
};

decoder::BoundProgram compile(const Subject& s, const passes::Observer& observer) {
  const Backend& backend = cpu::cpu_backend();
  decoder::ModelGraph graph = trace(s);
  if (observer) observer("as traced", graph.graph);
  if (s.phase == "train") {
    if (observer) graph.graph = passes::simplify(std::move(graph.graph), observer);
    graph = train::add_gradients(std::move(graph), s.model->parameters(), s.remat.save_policy());
    if (observer) observer("add gradients", graph.graph);
    graph = train::list_table_gradients(std::move(graph));
    if (observer) observer("list gradients of tables", graph.graph);
  }
  return decoder::BoundProgram(std::move(graph), backend, observer);
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

int run(const Arguments& a) {
  apply_threads(a.globals);
  Subject subject = find_subject(a);
  const std::string& show = a.text("show");
  auto start = std::chrono::steady_clock::now();
  compile(subject, {});
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  log::debug("traced and compiled in {:.1f} ms", 1e3 * seconds);

  print(headline(subject));
  PassPrinter passes(show == "all" || show == "passes");
  decoder::BoundProgram program = compile(subject, std::ref(passes));
  if (show == "all" || show == "kernels")
    print("== kernels, and why better ones were refused\n" + program.program().describe() + "\n");
  if (show == "all" || show == "memory")
    print("== memory plan\n" + memory_picture(program.program()));
  return 0;
}

Option choice(std::string name, std::string value, std::vector<std::string> choices,
              std::optional<std::string> preset, std::string doc) {
  Option out{.key = {.name = std::move(name), .type = Type::string}, .value = std::move(value)};
  if (preset) out.key.preset = Value(*preset);
  out.key.choices = std::move(choices);
  out.key.doc = std::move(doc);
  return out;
}

Option count(std::string name, char short_name, std::string doc) {
  return {.key = {.name = std::move(name),
                  .type = Type::integer,
                  .min = 1,
                  .max = decoder::kMostTokens,
                  .doc = std::move(doc)},
          .short_name = short_name,
          .value = "N"};
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
      .options = {choice("phase", "PHASE", {"train", "prefill", "decode"}, {},
                         "What to compile for: train for run files, decode for models, unless "
                         "given."),
                  choice("show", "PART", {"all", "passes", "kernels", "memory"}, "all",
                         "Print only this part."),
                  count(
                      "tokens", 'n',
                      "Tokens per row or prompt; for decode, of the decode state. Default: the run "
                      "file's, or 512."),
                  count("batch", 'b', "Rows. Default: the run file's microbatch, or 1."),
                  choice("dtype", "TYPE", {"float32", "bfloat16"}, {},
                         "Type to compute in. Default: the run file's, or bfloat16."),
                  set_option()},
      .positionals = {{.name = "RUN.toml|MODEL",
                       .doc = "A run file, a model file or a directory with a model."}},
      .examples = {"lamina explain configs/train/quickstart.toml",
                   "lamina explain configs/models/bench-0.6b.toml --phase prefill --show kernels"},
      .run = run};
}

}  // namespace lamina::cli
