// lamina eval --against: compares the predictions of two models.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/eval/eval_tasks.h"
#include "cli/eval/named_model.h"
#include "cli/plan/device_memory.h"
#include "cli/shell/plugins.h"
#include "cli/shell/signals.h"
#include "cli/shell/status_line.h"
#include "cli/shell/units.h"
#include "cli/shell/weight_choice.h"
#include "core/error.h"
#include "core/json_writer.h"
#include "decode/state_storage.h"
#include "evaluation/comparison.h"
#include "model/results.h"

namespace lamina::cli {
namespace {

using evaluation::ModelDivergence;
using evaluation::RowsOfWindow;

[[noreturn]] void refuse_reference(std::string what) {
  throw UserError(ExitCode::usage,
                  {"--against",
                   std::move(what),
                   {"give a model with the same vocabulary, eg the original of a quantised one"}});
}

// Ids must mean the same in both. Models may have more rows than their vocabulary has tokens.
void check_same_tokens(const EvalSubject& subject, const EvalSubject& reference) {
  const std::int64_t mine = subject.opened.model->vocab_size(),
                     theirs = reference.opened.model->vocab_size();
  if (mine != theirs)
    refuse_reference(fmt::format("'{}' has a vocabulary of {}, but '{}' has one of {}",
                                 reference.opened.directory, theirs, subject.opened.directory,
                                 mine));
  if (!subject.tokenizer || !reference.tokenizer) return;
  const std::int64_t common =
      std::min({mine, subject.tokenizer->vocab_size(), reference.tokenizer->vocab_size()});
  for (std::int32_t id = 0; id < common; ++id) {
    const std::string_view a = subject.tokenizer->token_bytes(id),
                           b = reference.tokenizer->token_bytes(id);
    if (a != b && !a.empty() && !b.empty())
      refuse_reference(fmt::format("'{}' has another tokenizer: token {} is '{}', but '{}' in '{}'",
                                   reference.opened.directory, id,
                                   reference.tokenizer->spelling(id),
                                   subject.tokenizer->spelling(id), subject.opened.directory));
  }
}

// The token with the largest divergence: its document, and its index in the document.
struct Place {
  std::uint64_t document, token;
};

Place place_of(const ModelDivergence& c, const RowsOfWindow& rows) {
  const evaluation::Window& window = rows.windows[c.largest_row];
  return {window.document, window.first_scored + static_cast<std::uint64_t>(c.largest_label)};
}

struct Report {
  NamedModel model;
  const model::OpenedModel& reference;
  DType dtype;
  const RowsOfWindow& rows;
  const ModelDivergence& c;
};

NamedModel reference_of(const Report& r) {
  NamedModel out = {{"against", r.reference.directory}};
  if (!r.reference.adapter.empty() && r.reference.adapter != r.reference.directory)
    out.emplace_back("against_adapter", r.reference.adapter);
  return out;
}

std::string as_json(const Report& r) {
  const Place place = place_of(r.c, r.rows);
  JsonWriter json(2);
  json.begin_object();
  write_model(json, r.model);
  for (const auto& [name, directory] : reference_of(r)) json.key(name).value(directory);
  json.key("task").value("text").key("loss").value(r.c.mean_loss());
  json.key("perplexity").value(std::exp(r.c.mean_loss()));
  json.key("reference_loss").value(r.c.mean_reference_loss());
  json.key("reference_perplexity").value(std::exp(r.c.mean_reference_loss()));
  json.key("mean_kl").value(r.c.mean_kl()).key("max_kl").value(r.c.largest_kl);
  json.key("max_kl_document").value(place.document).key("max_kl_token").value(place.token);
  json.key("top1_agreement").value(r.c.agreement()).key("tokens").value(r.c.num_tokens);
  json.key("rows").value(r.rows.num_rows).key("dtype").value(long_name(r.dtype)).end_object();
  return json.text() + "\n";
}

std::string as_text(const Report& r) {
  const Place place = place_of(r.c, r.rows);
  return fmt::format(
      "{}{}"
      "perplexity     {:.4f}, of the reference {:.4f}\n"
      "mean KL        {:.3g} nats per token\n"
      "largest KL     {:.3g} at token {} of document {}\n"
      "top-1 equal    {:.3f} % of the tokens\n"
      "over           {}, {} of {}\n",
      model_lines(r.model, 15), model_lines(reference_of(r), 15), std::exp(r.c.mean_loss()),
      std::exp(r.c.mean_reference_loss()), r.c.mean_kl(), r.c.largest_kl, place.token,
      place.document, 100 * r.c.agreement(), number_of(r.c.num_tokens, "token"),
      number_of(static_cast<std::int64_t>(r.rows.num_rows), "row"), r.rows.tokens_per_row);
}

// Checks the memory of both models, which are on the device together.
void check_memory_of_both(const decoder::Model& model, const decoder::Model& reference,
                          const RowsOfWindow& rows, const evaluation::Computing& computing,
                          const Device& device) {
  if (!has_own_memory(device)) return;
  MemoryNeed need;
  for (const auto& [name, of] :
       {std::pair{"", &model}, std::pair{" of the reference", &reference}}) {
    std::vector<decoder::ModelGraph> graphs = evaluation::compared_graphs(*of, rows, computing);
    std::size_t states = 0;
    for (const decoder::ModelGraph& graph : graphs) states += decode::bytes_of_states(graph.states);
    for (const auto& [part, bytes] :
         graphs_need(*of, computing.dtype, std::move(graphs), device.backend()))
      need.emplace_back(part + name, bytes);
    if (states > 0) need.emplace_back(std::string("state") + name, states);
  }
  check_memory(need, device, "eval", advice_on_memory(kFewerRows));
}

}  // namespace

std::string evaluate_against(const Arguments& a, const Device& device, EvalSubject subject,
                             EvalSubject reference, const RowsOfWindow& rows) {
  check_same_tokens(subject, reference);
  const DType dtype = reference.dtype = subject.dtype;
  const std::int64_t batch = a.integer("batch");
  const model::Loaded mine = std::move(subject).load(device, [&](const decoder::Model& model) {
    check_memory_of_both(model, *reference.opened.model, rows, {dtype, batch}, device);
  });
  note_plain_states(a, mine.model(), dtype);
  const model::Loaded theirs = std::move(reference).load(device);
  StatusLine status(a.globals.quiet, a.globals.color);
  const ModelDivergence c = evaluation::compare(
      {mine.model(), mine.weights.pointers()}, {theirs.model(), theirs.weights.pointers()}, rows,
      {.dtype = dtype, .batch_rows = batch}, device.backend(),
      [&](std::uint64_t done, std::uint64_t total) {
        end_if_asked();
        status.show(done == total,
                    [&](double s) { return count_line("comparing", "rows", done, total, s); });
      });
  if (!std::isfinite(c.mean_kl()))
    model::with_named_weights(theirs, [&] {
      model::refuse_results(mine, {mine.opened.directory,
                                   fmt::format("the mean divergence from '{}' is {}",
                                               theirs.opened.directory, c.mean_kl()),
                                   {}});
    });
  const Report report{name_model(a, mine.opened), theirs.opened, dtype, rows, c};
  return a.flag("json") ? as_json(report) : as_text(report);
}

}  // namespace lamina::cli
