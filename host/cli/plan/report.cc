#include "cli/plan/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "cli/bench/bench_text.h"
#include "cli/plan/memory_rows.h"
#include "cli/plan/storage_text.h"
#include "cli/shell/text.h"
#include "cli/shell/text_table.h"
#include "cli/shell/units.h"
#include "core/json_writer.h"

namespace lamina::cli {
namespace {

constexpr int kBarColumns = 24;

std::string bytes(double n) { return bytes_text(n); }
std::string bytes(std::int64_t n) { return bytes_text(static_cast<double>(n)); }

std::string bar(double share) {
  auto columns = static_cast<std::size_t>(std::lround(share * kBarColumns));
  return columns == 0 && share > 0 ? "." : std::string(columns, '#');
}

// "16.1 GFLOP"
std::string flops(double n) {
  std::string text = count_text(n);
  std::string unit =
      std::isalpha(static_cast<unsigned char>(text.back())) ? text.substr(text.size() - 1) : "";
  text.resize(text.size() - unit.size());
  return fmt::format("{} {}FLOP", text, unit == "B" ? "G" : unit);
}

std::string parameters_text(const inspect::ModelPlan& plan) {
  const inspect::ParameterCounts& p = plan.parameters;
  TextTable table(1);
  table.row({"total", thousands_text(p.total), count_text(static_cast<double>(p.total))});
  auto row = [&](const char* name, std::int64_t n) {
    if (n != 0) table.row({name, thousands_text(n), count_text(static_cast<double>(n))});
  };
  if (p.active != p.total) row("active per token", p.active);
  row("active without embedding and head", p.active_non_embedding);
  row("embedding", p.embedding);
  row("learned positions", p.positions);
  row("layers", p.layers);
  row("of these in experts", p.routed);
  row("norm", p.norm);
  row("head", p.head);
  row("other", p.other);
  row("not counted: training only", p.training_only);
  row("not counted: integers", p.integers);
  return "parameters\n" + table.text();
}

std::string stack_text(const inspect::ModelPlan& plan) {
  TextTable table(2);
  auto total = static_cast<double>(plan.parameters.total);
  auto row = [&](const inspect::StackPart& part, std::string_view indent) {
    double share = static_cast<double>(part.parameters) / total;
    std::string active;
    if (part.active != part.parameters)
      active = fmt::format("{} active", count_text(static_cast<double>(part.active)));
    table.row({fmt::format("{}{}", indent, part.name), part.detail,
               count_text(static_cast<double>(part.parameters)), active,
               fmt::format("{:.1f} %", 100 * share),
               fmt::format("{:<{}}", bar(share), kBarColumns)});
  };
  for (const inspect::StackPart& part : plan.stack) {
    row(part, "");
    for (const inspect::StackPart& member : part.members) row(member, "  ");
  }
  return "stack, from the embedding to the head; bars are shares of the parameters\n" +
         table.text();
}

std::string memory_text(const inspect::ModelPlan& plan) {
  const inspect::PlanOptions& o = plan.options;
  std::vector<std::string> weights;
  for (const auto& [dtype, n] : plan.weight_bytes)
    weights.push_back(fmt::format("{} in {}", bytes(n), long_name(dtype)));
  std::string out = fmt::format("weights\n  {}\n", fmt::join(weights, ", "));
  if (!plan.stored_bytes.empty()) {
    std::int64_t total = 0;
    std::vector<std::string> parts;
    for (const auto& [storage, n] : plan.stored_bytes) {
      total += n;
      parts.push_back(
          fmt::format("{} in {}", bytes(n), storage == "plain" ? long_name(o.dtype) : storage));
    }
    out += fmt::format("  {} in blocks ({})\n", bytes(total), fmt::join(parts, ", "));
  }
  out += "\n";
  if (const std::string storage = storage_text(plan.storage); !storage.empty())
    out += storage + "\n";
  if (!plan.work.decode) return out + "decode state: none, the model is not autoregressive\n";
  TextTable table(1);
  table.row({"kind", "layers", "per token", "fixed", "all layers, per token", "fixed"});
  double per_token = 0, fixed = 0;
  for (const inspect::StateUse& s : plan.states) {
    auto layers = static_cast<double>(s.num_layers);
    per_token += layers * s.bytes_per_token, fixed += layers * s.fixed_bytes;
    table.row({s.kind, fmt::format("{}", s.num_layers), bytes(s.bytes_per_token),
               bytes(s.fixed_bytes), bytes(layers * s.bytes_per_token),
               bytes(layers * s.fixed_bytes)});
  }
  if (plan.states.size() > 1) table.row({"all", "", "", "", bytes(per_token), bytes(fixed)});
  out += fmt::format("decode state in {}; {} of {} tokens: {}\n{}", long_name(o.dtype),
                     o.batch == 1 ? "per sequence" : fmt::format("{} sequences", o.batch), o.tokens,
                     bytes(plan.state_bytes), plan.states.empty() ? "" : table.text());
  return out;
}

std::string work_text(const inspect::ModelPlan& plan) {
  const inspect::WorkPerToken& w = plan.work;
  std::int64_t tokens = plan.options.tokens;
  TextTable table(1);
  table.row({fmt::format("forward, mean over a row of {} tokens", tokens), flops(w.forward_flops)});
  table.row({"train: forward and backward", flops(w.train_flops)});
  if (w.decode)
    table.row(
        {fmt::format("decode, token {} of a sequence", tokens), flops(w.decode->flops),
         bytes(w.decode->read_bytes) + " read in " + std::string(long_name(plan.options.dtype))});
  return "work for one token: products and attention\n" + table.text();
}

std::string train_text(const inspect::ModelPlan& plan) {
  const inspect::PlanOptions& o = plan.options;
  const train::TrainBytes& b = plan.train.bytes;
  TextTable table(1);
  for (auto& [name, n] : memory_rows(plan.train, o.dtype))
    table.row({std::move(name), bytes(static_cast<double>(n))});
  std::string saved;
  if (plan.train.frozen > 0)
    saved = fmt::format("  {} parameters are frozen: they have no gradient and no moments\n",
                        thousands_text(plan.train.frozen));
  if (plan.train.whole_gradients > b.gradients)
    saved += fmt::format("  lookup-only tables need only the rows of a step's tokens: {} less\n",
                         bytes(static_cast<double>(plan.train.whole_gradients - b.gradients)));
  return fmt::format(
      "memory of a training run besides activations, {} of {} x {} tokens per step\n{}{}",
      o.microbatches == 1 ? "a microbatch" : fmt::format("{} microbatches", o.microbatches),
      o.batch, o.tokens, table.text(), saved);
}

// Seconds of a microbatch's operations at the peak of the device.
double compute_seconds(const inspect::ModelPlan& plan, const device::Device& device) {
  const inspect::PlanOptions& o = plan.options;
  return plan.work.train_flops * static_cast<double>(o.batch * o.tokens) /
         device.peak_flops(o.dtype);
}

bool offloads_values(const inspect::ModelPlan& plan) {
  return std::ranges::any_of(plan.remat,
                             [](const inspect::RematCost& r) { return r.host_bytes > 0; });
}

bool offloads(const inspect::ModelPlan& plan) {
  return plan.train.bytes.offloaded > 0 || offloads_values(plan);
}

// Says what is in host memory, and how long its copies take.
std::string offload_text(const inspect::ModelPlan& plan, const device::Device& device) {
  if (!offloads(plan)) return "";
  const double seconds = compute_seconds(plan, device), rate = device.copy_bandwidth();
  const auto line = [&](const std::string& what, double host, double copied) {
    return fmt::format(
        "  {}: {} in host memory, {} copied each way in {:.3g} ms; a microbatch computes {:.3g} "
        "ms\n",
        what, bytes(host), bytes(copied), 1e3 * copied / rate, 1e3 * seconds);
  };
  std::string out;
  for (const inspect::RematCost& r : plan.remat)
    if (r.host_bytes > 0)
      out += line("train.remat = " + r.policies.front(), static_cast<double>(r.host_bytes),
                  r.copied_bytes);
  if (const auto state = static_cast<double>(plan.train.bytes.offloaded); state > 0)
    out += line("optimizer.offload", state, state);
  return fmt::format("\noffloading, at {} of the connection and {} of arithmetic\n{}",
                     bandwidth_text(rate), flops_text(device.peak_flops(plan.options.dtype)), out);
}

std::string remat_text(const inspect::ModelPlan& plan, const device::Device& device) {
  const inspect::PlanOptions& o = plan.options;
  const bool any_on_host = offloads_values(plan);
  TextTable table(1);
  std::vector<std::string> head{"train.remat", "arena", "kept for backward", "recomputed", ""};
  if (any_on_host) head.insert(head.begin() + 3, "host memory");
  table.row(std::move(head));
  for (const inspect::RematCost& r : plan.remat) {
    std::string repeated =
        r.recomputed_flops_per_token == 0
            ? "nothing"
            : fmt::format("+{:.1f} %", 100 * r.recomputed_flops_per_token / plan.work.train_flops);
    std::vector<std::string> row{r.policies.front(), bytes(r.arena_bytes), bytes(r.kept_bytes),
                                 repeated, r.chosen ? "<- this run" : ""};
    if (any_on_host) row.insert(row.begin() + 3, bytes(r.host_bytes));
    table.row(std::move(row));
    for (std::size_t i = 1; i < r.policies.size(); ++i)
      table.row({fmt::format("  = {}", r.policies[i])});
  }
  return fmt::format(
      "activations of a training step, {} x {} tokens in {}: what each policy needs\n{}{}", o.batch,
      o.tokens, long_name(o.dtype), table.text(), offload_text(plan, device));
}

void write_part(JsonWriter& json, const inspect::StackPart& part) {
  json.begin_object().key("name").value(part.name).key("detail").value(part.detail);
  json.key("parameters").value(part.parameters).key("active").value(part.active);
  if (!part.members.empty()) {
    json.key("kinds").begin_array();
    for (const inspect::StackPart& member : part.members) write_part(json, member);
    json.end_array();
  }
  json.end_object();
}

void write_parameters(JsonWriter& json, const inspect::ParameterCounts& p) {
  json.key("parameters").begin_object();
  json.key("total").value(p.total).key("active").value(p.active);
  json.key("active_non_embedding").value(p.active_non_embedding);
  json.key("embedding").value(p.embedding).key("positions").value(p.positions);
  json.key("layers").value(p.layers).key("routed_experts").value(p.routed);
  json.key("final_norm").value(p.norm).key("head").value(p.head).key("other").value(p.other);
  json.key("training_only").value(p.training_only).key("integers").value(p.integers);
  json.end_object();
}

}  // namespace

std::string plan_text(const std::string& model, const inspect::ModelPlan& plan,
                      const device::Device& device) {
  return fmt::format("{}: family {}, {}, width {}, vocabulary {}\n\n{}\n{}\n{}\n{}\n{}\n{}", model,
                     plan.family, number_of(plan.num_layers, "layer"), plan.hidden_size,
                     plan.vocab_size, parameters_text(plan), stack_text(plan), memory_text(plan),
                     work_text(plan), train_text(plan), remat_text(plan, device));
}

std::string plan_json(const std::string& model, const inspect::ModelPlan& plan,
                      const MemoryNeed& need, const device::Device& device) {
  const inspect::PlanOptions& o = plan.options;
  JsonWriter json(2);
  json.begin_object().key("model").value(model).key("family").value(plan.family);
  json.key("num_layers").value(plan.num_layers).key("hidden_size").value(plan.hidden_size);
  json.key("vocab_size").value(plan.vocab_size);
  write_parameters(json, plan.parameters);
  json.key("weight_bytes").begin_object();
  for (const auto& [dtype, n] : plan.weight_bytes) json.key(long_name(dtype)).value(n);
  json.end_object().key("stored_weight_bytes").begin_object();
  for (const auto& [storage, n] : plan.stored_bytes) json.key(storage).value(n);
  json.end_object().key("storage").begin_array();
  for (const inspect::ParameterStorage& p : plan.storage) {
    json.begin_object().key("parameters").value(p.name).key("count").value(p.count);
    json.key("shape").value(to_string(p.shape)).key("storage").value(p.storage);
    json.key("bytes").value(p.bytes).end_object();
  }
  json.end_array().key("stack").begin_array();
  for (const inspect::StackPart& part : plan.stack) write_part(json, part);
  json.end_array();

  json.key("dtype").value(long_name(o.dtype)).key("batch").value(o.batch);
  json.key("tokens").value(o.tokens);
  json.key("decode_state").begin_object().key("bytes").value(plan.state_bytes);
  json.key("kinds").begin_array();
  for (const inspect::StateUse& s : plan.states) {
    json.begin_object().key("kind").value(s.kind).key("layers").value(s.num_layers);
    json.key("bytes_per_token_and_layer").value(s.bytes_per_token);
    json.key("fixed_bytes_per_layer").value(s.fixed_bytes).end_object();
  }
  json.end_array().end_object();

  json.key("per_token").begin_object();
  json.key("forward_flops").value(plan.work.forward_flops);
  json.key("train_flops").value(plan.work.train_flops);
  if (const auto& decode = plan.work.decode) {
    json.key("decode_flops").value(decode->flops);
    json.key("decode_read_bytes").value(decode->read_bytes);
  }
  json.end_object();

  json.key("train_state").begin_object().key("microbatches").value(o.microbatches);
  json.key("frozen_parameters").value(plan.train.frozen);
  for (const auto& [name, bytes] : memory_fields(plan.train)) json.key(name).value(bytes);
  json.key("whole_gradient_bytes").value(plan.train.whole_gradients).end_object();

  json.key("remat").begin_array();
  for (const inspect::RematCost& r : plan.remat) {
    json.begin_object().key("policies").begin_array();
    for (const std::string& policy : r.policies) json.value(policy);
    json.end_array().key("chosen").value(r.chosen);
    json.key("arena_bytes").value(r.arena_bytes).key("kept_bytes").value(r.kept_bytes);
    json.key("host_bytes").value(r.host_bytes);
    if (r.host_bytes > 0) json.key("copied_bytes").value(r.copied_bytes);
    json.key("recomputed_flops_per_token").value(r.recomputed_flops_per_token).end_object();
  }
  json.end_array();
  if (offloads(plan)) {
    json.key("copy_bytes_per_second").value(device.copy_bandwidth());
    json.key("compute_seconds").value(compute_seconds(plan, device));
  }
  if (!need.empty()) {
    json.key("device_memory").begin_object().key("device").value(device.name());
    json.key("free_bytes").value(device.available_memory()).key("parts").begin_array();
    for (const auto& [part, bytes] : need)
      json.begin_object().key("name").value(part).key("bytes").value(bytes).end_object();
    json.end_array().end_object();
  }
  json.end_object();
  return json.text() + "\n";
}

}  // namespace lamina::cli
