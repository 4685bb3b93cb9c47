#include "cli/explain/subject.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/generate/generation_options.h"
#include "cli/shell/plugins.h"
#include "cli/shell/units.h"
#include "cli/shell/weight_choice.h"
#include "decode/sampler.h"
#include "decode/shortlist_rows.h"
#include "model/open.h"
#include "model/training.h"
#include "train/loop/run.h"
#include "train/optimizer/gradients.h"
#include "train/optimizer/row_gradients.h"

namespace lamina::cli {
namespace {

decoder::ModelGraph trace(const Subject& s, const Backend& backend) {
  if (s.phase == "train")
    return s.task->loss_graph(*s.model, {s.batch, s.tokens, s.dtype},
                              train::all_losses(s.segments));
  decoder::ModelGraph graph =
      s.model->decode_graph({s.batch, s.tokens, s.dtype}, {s.capacity, s.capacity});
  const decode::ShortlistShape shape = decode::shortlist_shape({}, s.model->vocab_size());
  if (!shape.is_whole() && !backend.reaches(MemoryKind::host)) decode::add_shortlists(graph, shape);
  return graph;
}

}  // namespace

Subject find_subject(const Arguments& a) {
  const std::string& path = a.positionals[0];
  Subject s;
  std::string phase = "decode";
  std::int64_t tokens = 512;
  model::OpenedModel opened;
  const bool is_run = config::is_run_file(path);
  if (is_run) {
    refuse_quantising(a, "the run file " + path);
    config::RunConfig c = config::load_run(path, overrides_of(a));
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
    opened = model::open(path, plugin_catalog(a.globals),
                         {.compress_tokens = decoder::uncompressed_tokens}, model_overrides(a));
  }
  s.phase = a.has("phase") ? a.text("phase") : phase;
  if (s.phase == "train" && a.has("kv-dtype"))
    throw UserError(ExitCode::usage, {"--kv-dtype",
                                      "has no effect on training, which has no decode state",
                                      {"use --phase decode or --phase prefill"}});
  if (a.has("batch")) s.batch = a.integer("batch");
  if (a.has("tokens")) tokens = a.integer("tokens");
  if (a.has("dtype")) s.dtype = *parse_dtype(a.text("dtype"));
  if (opened.model) {
    if (s.phase == "train") refuse_quantising(a, "--phase train");
    model::set_storage(opened, weight_choice(a), s.dtype);
    s.model = std::move(opened.model);
  }
  if (!a.has("tokens") && (!is_run || s.phase != "train"))
    tokens = within_positions(*s.model, tokens);
  // Decoding writes one token; --tokens is then the capacity of the state.
  s.tokens = s.phase == "decode" ? 1 : tokens;
  s.capacity = tokens;
  if (s.phase != "train") warn_of_positions(*s.model, s.capacity);
  return s;
}

program::BoundProgram compile(const Subject& s, const Backend& backend,
                              const passes::Observer& observer) {
  decoder::ModelGraph graph = trace(s, backend);
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

}  // namespace lamina::cli
